#include "frameworks/python/core/optimizer_step.h"

#include <nanobind/stl/vector.h>

#include <cstdint>
#include <new>
#include <vector>

#include "frameworks/python/core/errors.h"
#include "xoe/c.h"

namespace xoe::python {
namespace {

template <class T>
T* pointer(std::uintptr_t address) {
  return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr)
}

// Memory of one parameter, or of a part of it. Owns nothing.
class StepSlice {
 public:
  StepSlice(std::uintptr_t parameter, std::uintptr_t master, const std::vector<std::uintptr_t>& gradients,
            std::size_t count, std::int32_t dtype, std::int32_t gradient_dtype, std::int32_t reduce,
            const std::vector<std::uintptr_t>& states)
      : states_(states) {
    for (const std::uintptr_t gradient : gradients) gradients_.push_back(pointer<const void>(gradient));
    step_.parameter = pointer<void>(parameter);
    step_.master = pointer<float>(master);
    step_.count = count;
    step_.dtype = dtype;
    step_.gradient_dtype = gradient_dtype;
    step_.reduce = reduce;
  }

  xoe_step step() const {
    xoe_step step = step_;
    step.gradients = gradients_.data();
    step.gradient_count = gradients_.size();
    return step;
  }
  float* state(std::size_t index) const { return index < states_.size() ? pointer<float>(states_[index]) : nullptr; }

 private:
  xoe_step step_{};
  std::vector<const void*> gradients_;
  std::vector<std::uintptr_t> states_;
};

// Calls step(slice) for each, without the interpreter's lock.
template <class Step>
void for_slices(const nb::list& list, const Step& step) {
  std::vector<const StepSlice*> slices;
  for (const nb::handle slice : list) slices.push_back(nb::cast<const StepSlice*>(slice));
  check(call_released([&] {
    for (const StepSlice* slice : slices)
      if (const xoe_status status = step(*slice); status != XOE_OK) return status;
    return xoe_status{XOE_OK};
  }));
}

// The sums of what norms(slice, result) gives for each.
template <class Norms>
nb::tuple sum_of_slices(const nb::list& list, const Norms& norms) {
  xoe_norms sum{};
  for_slices(list, [&](const StepSlice& slice) {
    xoe_norms one{};
    const xoe_status status = norms(slice, &one);
    sum.parameter += one.parameter;
    sum.update += one.update;
    return status;
  });
  return nb::make_tuple(sum.parameter, sum.update);
}

xoe_sgd sgd_options(double learning_rate, double momentum, double dampening, double weight_decay, bool nesterov,
                    bool maximize, bool first, double trust) {
  xoe_sgd options;
  xoe_sgd_init(&options, sizeof(options));
  options.learning_rate = learning_rate;
  options.momentum = momentum;
  options.dampening = dampening;
  options.weight_decay = weight_decay;
  options.nesterov = nesterov ? 1 : 0;
  options.maximize = maximize ? 1 : 0;
  options.first = first ? 1 : 0;
  options.trust = trust;
  return options;
}

xoe_adam adam_options(double learning_rate, double beta1, double beta2, double epsilon, double weight_decay,
                      std::int64_t step, bool decoupled, bool maximize) {
  xoe_adam options;
  xoe_adam_init(&options, sizeof(options));
  options.learning_rate = learning_rate;
  options.beta1 = beta1;
  options.beta2 = beta2;
  options.epsilon = epsilon;
  options.weight_decay = weight_decay;
  options.step = step;
  options.decoupled = decoupled ? 1 : 0;
  options.maximize = maximize ? 1 : 0;
  return options;
}

void sgd_step(const nb::list& slices, const xoe_sgd& options) {
  for_slices(slices, [&](const StepSlice& slice) {
    const xoe_step step = slice.step();
    return xoe_sgd_step(&options, &step, slice.state(0));
  });
}

nb::tuple lars_norms(const nb::list& slices, const xoe_sgd& options) {
  return sum_of_slices(slices, [&](const StepSlice& slice, xoe_norms* norms) {
    const xoe_step step = slice.step();
    return xoe_lars_norms(&options, &step, norms);
  });
}

double lars_trust(const xoe_sgd& options, double parameter, double update, double coefficient, double epsilon) {
  const xoe_norms norms{parameter, update};
  double trust = 0;
  check(xoe_lars_trust(&options, &norms, coefficient, epsilon, &trust));
  return trust;
}

void adam_step(const nb::list& slices, const xoe_adam& options, bool amsgrad) {
  for_slices(slices, [&](const StepSlice& slice) {
    const xoe_step step = slice.step();
    return xoe_adam_step(&options, &step, slice.state(0), slice.state(1), amsgrad ? slice.state(2) : nullptr);
  });
}

nb::tuple lamb_moments(const nb::list& slices, const xoe_adam& options) {
  return sum_of_slices(slices, [&](const StepSlice& slice, xoe_norms* norms) {
    const xoe_step step = slice.step();
    return xoe_lamb_moments(&options, &step, slice.state(0), slice.state(1), norms);
  });
}

double lamb_trust(double parameter, double update) {
  const xoe_norms norms{parameter, update};
  double trust = 0;
  check(xoe_lamb_trust(&norms, &trust));
  return trust;
}

void lamb_apply(const nb::list& slices, const xoe_adam& options, double trust) {
  for_slices(slices, [&](const StepSlice& slice) {
    const xoe_step step = slice.step();
    return xoe_lamb_apply(&options, &step, slice.state(0), slice.state(1), trust);
  });
}

}  // namespace

void bind_optimizer_step(nb::module_& module) {
  nb::class_<StepSlice>(module, "StepSlice")
      .def(nb::init<std::uintptr_t, std::uintptr_t, const std::vector<std::uintptr_t>&, std::size_t, std::int32_t,
                    std::int32_t, std::int32_t, const std::vector<std::uintptr_t>&>(),
           nb::arg("parameter"), nb::arg("master"), nb::arg("gradients"), nb::arg("count"), nb::arg("dtype"),
           nb::arg("gradient_dtype"), nb::arg("reduce"), nb::arg("states"),
           "Addresses of what a step reads and writes; the caller keeps the memory. xoe/c.h (xoe_step) says what they "
           "are.\nmaster: 0 for float32. states: as the step takes them.");
  nb::class_<xoe_sgd>(module, "SgdOptions")
      .def(
          "__init__",
          [](xoe_sgd* made, double learning_rate, double momentum, double dampening, double weight_decay, bool nesterov,
             bool maximize, bool first, double trust) {
            new (made) xoe_sgd(
                sgd_options(learning_rate, momentum, dampening, weight_decay, nesterov, maximize, first, trust));
          },
          nb::kw_only(), nb::arg("learning_rate"), nb::arg("momentum"), nb::arg("dampening"), nb::arg("weight_decay"),
          nb::arg("nesterov"), nb::arg("maximize"), nb::arg("first"), nb::arg("trust") = 1.0, "As xoe_sgd.");
  nb::class_<xoe_adam>(module, "AdamOptions")
      .def(
          "__init__",
          [](xoe_adam* made, double learning_rate, double beta1, double beta2, double epsilon, double weight_decay,
             std::int64_t step, bool decoupled, bool maximize) {
            new (made)
                xoe_adam(adam_options(learning_rate, beta1, beta2, epsilon, weight_decay, step, decoupled, maximize));
          },
          nb::kw_only(), nb::arg("learning_rate"), nb::arg("beta1"), nb::arg("beta2"), nb::arg("epsilon"),
          nb::arg("weight_decay"), nb::arg("step"), nb::arg("decoupled") = false, nb::arg("maximize"), "As xoe_adam.");
  module.def("sgd_step", &sgd_step, nb::arg("slices"), nb::arg("options"), "xoe_sgd_step() of a list of StepSlice.");
  module.def("adam_step", &adam_step, nb::arg("slices"), nb::arg("options"), nb::arg("amsgrad"),
             "xoe_adam_step() of a list of StepSlice.");
  module.def("lars_norms", &lars_norms, nb::arg("slices"), nb::arg("options"),
             "xoe_lars_norms(): sums of squares of the parameters and of the gradients.");
  module.def("lars_trust", &lars_trust, nb::arg("options"), nb::arg("parameter"), nb::arg("update"),
             nb::arg("coefficient"), nb::arg("epsilon"), "xoe_lars_trust().");
  module.def("lamb_moments", &lamb_moments, nb::arg("slices"), nb::arg("options"),
             "xoe_lamb_moments(): sums of squares of the parameters and of their updates.");
  module.def("lamb_trust", &lamb_trust, nb::arg("parameter"), nb::arg("update"), "xoe_lamb_trust().");
  module.def("lamb_apply", &lamb_apply, nb::arg("slices"), nb::arg("options"), nb::arg("trust"),
             "xoe_lamb_apply() of a list of StepSlice.");
}

}  // namespace xoe::python
