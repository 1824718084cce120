// libxoe_tensorflow.so: two operations of TensorFlow, which xoe.tensorflow calls (inside of programs that XLA compiles
// it makes the calls of tensorflow_xla.cc instead). XoeReduce gives each tensor a result of its shape: allreduce,
// Adasum, broadcast; the results of XoeGather have shapes that the ranks decide: allgather, reduce-scatter, alltoall,
// whose rows for each rank are the input `splits` (empty: equal parts). Kernels do not block a thread of TensorFlow:
// they submit, and the engine completes them.
#include <array>
#include <charconv>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "frameworks/plugins/engine_access.h"
#include "frameworks/plugins/observer.h"
#include "frameworks/plugins/tensorflow_c.h"
#include "frameworks/plugins/tensorflow_xla.h"
#include "frameworks/plugins/types.h"

namespace xoe::plugins {
namespace {

using namespace tensorflow;

const EngineAccess* the_access = nullptr;
Api the_api;

// Why there are no operations; empty: there are. Made on first use, which may come before this library's other
// initializations.
std::string& failure() {
  static std::string why;
  return why;
}

struct StatusHolder {
  StatusHolder() : status(the_api.new_status()) {}
  StatusHolder(const StatusHolder&) = delete;
  StatusHolder& operator=(const StatusHolder&) = delete;
  ~StatusHolder() { the_api.delete_status(status); }
  bool ok() const { return the_api.code(status) == Code::kOk; }
  Status* status;
};

// The attributes of one node of a graph.
struct Node {
  std::int64_t kind = 0;
  std::int64_t reduce = 0;
  std::int64_t root = 0;
  std::int64_t process_set = 0;
  std::int64_t compression = 0;
  std::int64_t watch = 0;  // the number by which Python looks at its first runs; 0: it does not
  double prescale = 1.0;
  double postscale = 1.0;
  std::string name;
};

struct Kernel {
  Node node;
  SeenIn seen = 0;
};

// One run of a node, from the submit to its completion.
class Run {
 public:
  Run(const Node& node, Context* context, std::function<void()> done)
      : node_(node), context_(context), done_(std::move(done)) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() {
    for (Tensor* tensor : held_) the_api.delete_tensor(tensor);
  }

  // Takes the run into its own hands. seen: of the kernel.
  static void start(std::unique_ptr<Run> run, SeenIn& seen) {
    const EngineUse engine(the_access);  // until the submit is over, which may be after the completion
    if (engine.get() == nullptr) return finish(std::move(run), XOE_INVALID_ARGUMENT, EngineUse::kNone);
    if (!run->read_inputs() || (keeps_shapes(run->node_.kind) && !run->make_outputs())) return complete(std::move(run));
    if (run->node_.watch != 0) first_steps().show(run->node_.watch, seen, [&] { return run->observed(); });
    xoe_request request;
    xoe_request_init(&request, sizeof(request));
    run->describe(request);
    Run* const raw = run.release();  // until the callback, which comes unless the submit fails
    request.callback = &Run::completed;
    request.callback_user = raw;
    if (!keeps_shapes(raw->node_.kind)) {
      request.allocator = &Run::allocate;
      request.allocator_user = raw;
    }
    const xoe_status status = xoe_submit(engine.get(), &request, nullptr);
    if (status != XOE_OK) finish(std::unique_ptr<Run>(raw), status, xoe_last_error());
  }

 private:
  void describe(xoe_request& request) const {
    request.name = node_.name.c_str();
    request.kind = static_cast<std::int32_t>(node_.kind);
    request.reduce = static_cast<std::int32_t>(node_.reduce);
    request.tensors = tensors_.data();
    request.tensor_count = tensors_.size();
    request.prescale = node_.prescale;
    request.postscale = node_.postscale;
    request.root = static_cast<std::int32_t>(node_.root);
    request.process_set = static_cast<std::int32_t>(node_.process_set);
    request.compression = static_cast<std::int32_t>(node_.compression);
    request.splits = splits_.empty() ? nullptr : splits_.data();
    request.split_count = splits_.size();
    request.queue_same_name = node_.name.empty() ? 0 : 1;
    request.needs_all_ranks = node_.kind == XOE_BROADCAST ? 1 : 0;
  }

  std::vector<Observed> observed() const {
    std::vector<Observed> observed;
    for (const xoe_tensor& tensor : tensors_) {
      const std::size_t width = xoe_dtype_size(tensor.dtype);
      std::size_t bytes = width;
      for (std::int32_t d = 0; d < tensor.ndim; ++d) bytes *= static_cast<std::size_t>(tensor.shape[d]);
      observed.push_back({tensor.in, static_cast<std::int64_t>(bytes), static_cast<std::int64_t>(width)});
    }
    return observed;
  }

  bool read_inputs() {
    const StatusHolder status;
    const int count = the_api.inputs(context_) - (keeps_shapes(node_.kind) ? 0 : 1);
    shapes_.resize(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      Tensor* const tensor = input(i, status);
      if (tensor == nullptr) return fail(status);
      const DataType dtype = the_api.type(tensor);
      types_.push_back(dtype);
      auto& shape = shapes_[static_cast<std::size_t>(i)];
      for (int d = 0; d < the_api.ndim(tensor); ++d) shape.push_back(the_api.dimension(tensor, d));
      const Type type = type_of(dtype);
      if (type.parts > 1) shape.push_back(type.parts);
      xoe_tensor one{};
      one.in = the_api.data(tensor);
      one.shape = shape.data();
      one.ndim = static_cast<std::int32_t>(shape.size());
      one.dtype = type.dtype;
      tensors_.push_back(one);
    }
    if (keeps_shapes(node_.kind)) return true;
    Tensor* const splits = input(count, status);
    if (splits == nullptr) return fail(status);
    if (the_api.ndim(splits) != 1) {
      the_api.set_status(status.status, Code::kInvalidArgument,
                         "xoe invalid_argument: splits must have one dimension: a number of rows for each rank");
      return fail(status);
    }
    const auto* const rows = static_cast<const std::int64_t*>(the_api.data(splits));
    splits_.assign(rows, rows + the_api.dimension(splits, 0));
    return true;
  }

  Tensor* input(int index, const StatusHolder& status) {
    Tensor* tensor = nullptr;
    the_api.input(context_, index, &tensor, status.status);
    if (tensor != nullptr) held_.push_back(tensor);
    return tensor;
  }

  // An input without another user becomes its result.
  bool make_outputs() {
    const StatusHolder status;
    for (int i = 0; i < static_cast<int>(tensors_.size()); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const int ndim = static_cast<int>(shapes_[at].size()) - (type_of(types_[at]).parts > 1 ? 1 : 0);
      int forwarded = -1;
      Tensor* const out =
          the_api.forward_or_allocate_output(context_, &i, 1, i, shapes_[at].data(), ndim, &forwarded, status.status);
      if (!status.ok() || out == nullptr) return fail(status);
      held_.push_back(out);
      tensors_[at].out = the_api.data(out);
    }
    return true;
  }

  static void* allocate(void* user, std::size_t index, const std::int64_t* shape, std::int32_t ndim,
                        std::int32_t dtype) {
    Run& run = *static_cast<Run*>(user);
    const DataType type = run.types_[index];
    std::size_t bytes = xoe_dtype_size(dtype);
    for (std::int32_t d = 0; d < ndim; ++d) bytes *= static_cast<std::size_t>(shape[d]);
    const StatusHolder status;
    Tensor* const out = the_api.allocate_output(run.context_, static_cast<int>(index), type, shape,
                                                ndim - (type_of(type).parts > 1 ? 1 : 0), bytes, status.status);
    if (!status.ok() || out == nullptr) return nullptr;
    run.held_.push_back(out);
    // An empty tensor has no address, and null would mean that there is no memory.
    static char empty;
    return bytes > 0 ? the_api.data(out) : &empty;
  }

  bool fail(const StatusHolder& status) {
    the_api.fail(context_, status.status);
    return false;
  }

  static void completed(void* user, xoe_status status, const char* message) {
    std::unique_ptr<Run> run(static_cast<Run*>(user));
    if (status == XOE_OK) {
      complete(std::move(run));
    } else {
      // Ranks that disagree are a failed precondition, as in Horovod: the call itself was right.
      const bool disagree = status == XOE_INVALID_ARGUMENT;
      finish(std::move(run), status, message, disagree ? Code::kFailedPrecondition : code_of(status));
    }
  }

  // xoe.tensorflow finds the status in the text.
  static void finish(std::unique_ptr<Run> run, xoe_status status, const char* message) {
    finish(std::move(run), status, message, code_of(status));
  }

  static void finish(std::unique_ptr<Run> run, xoe_status status, const char* message, Code code) {
    const StatusHolder holder;
    const std::string text = std::string("xoe ") + xoe_status_name(status) + ": " + message;
    the_api.set_status(holder.status, code, text.c_str());
    the_api.fail(run->context_, holder.status);
    complete(std::move(run));
  }

  static void complete(std::unique_ptr<Run> run) {
    const std::function<void()> done = std::move(run->done_);
    run.reset();  // the context ends with the call
    done();
  }

  const Node node_;  // the kernel may be gone before the operation has completed
  Context* context_;
  std::function<void()> done_;
  std::vector<Tensor*> held_;
  std::vector<DataType> types_;
  std::vector<std::vector<std::int64_t>> shapes_;
  std::vector<xoe_tensor> tensors_;
  std::vector<std::int64_t> splits_;
};

std::string text_attribute(Construction* construction, const char* name, Status* status) {
  std::int32_t count = 0;
  std::int32_t size = 0;
  the_api.attribute_size(construction, name, &count, &size, status);
  std::string text(static_cast<std::size_t>(size > 0 ? size : 0), '\0');
  if (the_api.code(status) == Code::kOk) the_api.attribute_text(construction, name, text.data(), text.size(), status);
  return text;
}

// Whatever the locale is.
double number_in(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : std::numeric_limits<double>::quiet_NaN();
}

void* create(Construction* construction) {
  auto kernel = std::make_unique<Kernel>();
  Node& node = kernel->node;
  const StatusHolder status;
  const std::array<std::pair<const char*, std::int64_t*>, 6> integers{{{"kind", &node.kind},
                                                                       {"reduce", &node.reduce},
                                                                       {"root", &node.root},
                                                                       {"process_set", &node.process_set},
                                                                       {"compression", &node.compression},
                                                                       {"watch", &node.watch}}};
  for (const auto& [name, value] : integers) {
    if (status.ok()) the_api.attribute_integer(construction, name, value, status.status);
  }
  if (status.ok()) node.prescale = number_in(text_attribute(construction, "prescale", status.status));
  if (status.ok()) node.postscale = number_in(text_attribute(construction, "postscale", status.status));
  if (status.ok()) node.name = text_attribute(construction, "collective", status.status);
  if (!status.ok()) the_api.fail_construction(construction, status.status);
  return kernel.release();
}

void destroy(void* kernel) { delete static_cast<Kernel*>(kernel); }

// TensorFlow's C interface passes the address of an argument of type std::function<void()>, which is gone once this
// returns; so the function is taken out of it. frameworks/tests/python/tensorflow_test.py runs this with each
// TensorFlow that xoe.tensorflow accepts.
void compute(void* kernel, Context* context, Done* done) {
  auto& given = *reinterpret_cast<std::function<void()>*>(done);
  auto& own = *static_cast<Kernel*>(kernel);
  Run::start(std::make_unique<Run>(own.node, context, std::move(given)), own.seen);
}

void same_shapes(ShapeContext* context, Status* status) {
  Shape* const shape = the_api.new_shape();
  const auto count = static_cast<int>(the_api.input_count(context));
  for (int i = 0; i < count && the_api.code(status) == Code::kOk; ++i) {
    the_api.input_shape(context, i, shape, status);
    if (the_api.code(status) == Code::kOk) the_api.set_output_shape(context, i, shape, status);
  }
  the_api.delete_shape(shape);
}

void unknown_shapes(ShapeContext* context, Status* status) { the_api.set_unknown_shapes(context, status); }

constexpr const char* kTypes =
    "T: list({bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, half, bfloat16, float, double, "
    "complex64, "
    "complex128}) >= 1";

void register_one(const char* name, void (*shapes)(ShapeContext*, Status*), bool splits) {
  const StatusHolder status;
  OpBuilder* const op = the_api.new_op(name);
  the_api.add_attribute(op, kTypes);
  for (const char* integer :
       {"kind: int", "reduce: int", "root: int", "process_set: int", "compression: int", "watch: int = 0"})
    the_api.add_attribute(op, integer);
  for (const char* text : {"prescale: string", "postscale: string", "collective: string"})
    the_api.add_attribute(op, text);
  the_api.add_input(op, "tensors: T");
  if (splits) the_api.add_input(op, "splits: int64");
  the_api.add_output(op, "results: T");
  the_api.set_stateful(op, true);
  the_api.set_shape_function(op, shapes);
  the_api.register_op(op, status.status);
  if (!status.ok()) {
    failure() = the_api.message(status.status);
    return;
  }
  KernelBuilder* const kernel = the_api.new_kernel(name, "CPU", &create, &compute, &destroy);
  the_api.register_kernel(name, kernel, status.status);
  if (!status.ok()) failure() = the_api.message(status.status);
}

// When tf.load_op_library() loads the library.
[[gnu::constructor]] void register_all() {
  if (const char* missing = load(the_api)) {
    failure() = std::string("this TensorFlow has no ") + missing;
    return;
  }
  register_one("XoeReduce", &same_shapes, false);
  register_one("XoeGather", &unknown_shapes, true);
}

}  // namespace
}  // namespace xoe::plugins

// For ctypes.
extern "C" XOE_API void xoe_tensorflow_observe(xoe::plugins::Observer::Look look) {
  xoe::plugins::first_steps().connect(look);
}

extern "C" XOE_API void xoe_tensorflow_begin_again() { xoe::plugins::first_steps().begin_again(); }

// Why there are no operations; "": there are.
extern "C" XOE_API const char* xoe_tensorflow_connect(const xoe::plugins::EngineAccess* access) {
  xoe::plugins::the_access = access;
  return xoe::plugins::failure().c_str();
}

// Why programs that XLA compiles cannot communicate; "": they can.
extern "C" XOE_API const char* xoe_tensorflow_connect_xla(const xoe::plugins::EngineAccess* access,
                                                          const char* library) {
  return xoe::plugins::register_xla_calls(access, library);
}
