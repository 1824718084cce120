#include "core/engine/execute/adasum.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "core/reduce/reduce.h"

namespace xoe::engine {
namespace {

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const noexcept { return end - begin; }
};

// Uninitialised memory.
template <class T>
class Block {
 public:
  explicit Block(std::size_t count) : data_(std::make_unique_for_overwrite<T[]>(count)) {}
  T* get() const noexcept { return data_.get(); }

 private:
  std::unique_ptr<T[]> data_;
};

// The slices of the ranks: all tensors, one after the other, are cut into one slice per rank.
struct Plan {
  std::vector<std::size_t> counts;    // of each rank's slice
  std::vector<std::size_t> received;  // the own slice, from each rank
  std::vector<Range> parts;           // of the own slice: the tensors that have values in it
  std::vector<std::size_t> tensors;   // whose parts these are
  std::size_t total = 0;
  std::size_t start = 0;  // of the own slice
  std::size_t slice = 0;  // its count
};

Plan make_plan(std::span<const Tensor> tensors, int rank, int size) {
  Plan plan;
  for (const Tensor& tensor : tensors) plan.total += tensor.count;
  const auto ranks = static_cast<std::size_t>(size), own = static_cast<std::size_t>(rank);
  for (std::size_t r = 0; r < ranks; ++r) {
    plan.counts.push_back(plan.total / ranks + (r < plan.total % ranks ? 1 : 0));
    if (r < own) plan.start += plan.counts.back();
  }
  plan.slice = plan.counts[own];
  plan.received.assign(ranks, plan.slice);
  std::size_t first = 0;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const std::size_t begin = std::max(first, plan.start);
    const std::size_t end = std::min(first + tensors[t].count, plan.start + plan.slice);
    if (begin < end) {
      plan.parts.push_back({begin - plan.start, end - plan.start});
      plan.tensors.push_back(t);
    }
    first += tensors[t].count;
  }
  return plan;
}

Status check(std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    const DType dtype = tensor.dtype;
    if (dtype != tensors[0].dtype)
      return failure(Code::kInvalidArgument, "adasum: {} and {} among the tensors; they must have one type",
                     dtype_name(tensors[0].dtype), dtype_name(dtype));
    if (dtype != DType::kFloat16 && dtype != DType::kBfloat16 && dtype != DType::kFloat32 && dtype != DType::kFloat64)
      return failure(Code::kInvalidArgument, "adasum: {} is no float type", dtype_name(dtype));
    if (tensor.data == nullptr && tensor.count != 0)
      return failure(Code::kInvalidArgument, "adasum: a tensor is null but has {} elements", tensor.count);
  }
  return {};
}

// a.b, a.a and b.b
using Products = std::array<double, 3>;

template <class T>
Products products(const T* a, const T* b, std::size_t count) noexcept {
  // Several sums side by side keep vector units busy; their order is fixed.
  constexpr std::size_t kLanes = 8;
  std::array<std::array<double, kLanes>, 3> sums = {};
  const auto step = [&](std::size_t i, std::size_t l) {
    const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    sums[0][l] += x * y;
    sums[1][l] += x * x;
    sums[2][l] += y * y;
  };
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::size_t l = 0; l < kLanes; ++l) step(i + l, l);
  for (std::size_t l = 0; i < count; ++i, ++l) step(i, l);
  Products result = {};
  for (std::size_t p = 0; p < result.size(); ++p)
    for (const double sum : sums[p]) result[p] += sum;
  return result;
}

double factor(double dot, double norm) noexcept { return norm == 0.0 ? 1.0 : 1.0 - dot / (2.0 * norm); }

// a becomes the combination of a and b.
template <class T>
void combine(T* a, const T* b, std::size_t count, const Products& p) noexcept {
  const auto fa = static_cast<T>(factor(p[0], p[1])), fb = static_cast<T>(factor(p[0], p[2]));
  for (std::size_t i = 0; i < count; ++i) a[i] = fa * a[i] + fb * b[i];
}

// The own slices of all ranks, one after the other, and the products of the current level.
template <class T>
class Slices {
 public:
  Slices(const Plan& plan, std::size_t tensors) : plan_(plan), tensors_(tensors), values_(ranks() * plan.slice) {}

  T* values() const noexcept { return values_.get(); }

  // The products of the pairs at this distance over this slice: [pair][tensor].
  std::vector<Products>& multiply(std::size_t distance) {
    products_.assign((ranks() + distance - 1) / (2 * distance) * tensors_, Products{});
    for_each_part(distance, [](T* a, const T* b, std::size_t count, Products& p) { p = products(a, b, count); });
    return products_;
  }
  // The left one of each pair becomes the combination.
  void combine_pairs(std::size_t distance) {
    for_each_part(distance, [](T* a, const T* b, std::size_t count, const Products& p) { combine(a, b, count, p); });
  }

 private:
  std::size_t ranks() const noexcept { return plan_.counts.size(); }

  template <class Body>
  void for_each_part(std::size_t distance, const Body& body) {
    for (std::size_t pair = 0, left = 0; left + distance < ranks(); ++pair, left += 2 * distance) {
      T* a = values_.get() + left * plan_.slice;
      const T* b = a + distance * plan_.slice;
      for (std::size_t k = 0; k < plan_.parts.size(); ++k) {
        const auto [begin, end] = plan_.parts[k];
        body(a + begin, b + begin, end - begin, products_[pair * tensors_ + plan_.tensors[k]]);
      }
    }
  }

  const Plan& plan_;
  std::size_t tensors_;
  Block<T> values_;
  std::vector<Products> products_;
};

// The tensors one after the other: a single one in place, several in a copy.
class Row {
 public:
  Row(std::span<const Tensor> tensors, std::size_t total) : tensors_(tensors) {
    const auto lone = std::ranges::find_if(tensors, [&](const Tensor& tensor) { return tensor.count == total; });
    if (lone != tensors.end()) {
      all_ = *lone;
      return;
    }
    const DType dtype = tensors[0].dtype;
    copy_ = std::make_unique_for_overwrite<std::byte[]>(total * dtype_size(dtype));
    all_ = Tensor(copy_.get(), total, dtype);
    for_each([](std::byte* place, const Tensor& tensor) { std::memcpy(place, tensor.data, tensor.bytes()); });
  }

  const Tensor& tensor() const noexcept { return all_; }
  void write_back() const {
    if (copy_)
      for_each([](std::byte* place, const Tensor& tensor) { std::memcpy(tensor.data, place, tensor.bytes()); });
  }

 private:
  template <class Body>
  void for_each(const Body& body) const {
    auto* place = static_cast<std::byte*>(all_.data);
    for (const Tensor& tensor : tensors_) {
      if (tensor.count == 0) continue;
      body(place, tensor);
      place += tensor.bytes();
    }
  }

  std::span<const Tensor> tensors_;
  std::unique_ptr<std::byte[]> copy_;
  Tensor all_;
};

template <class T>
Task run(Communicator& comm, const Plan& plan, std::span<const Tensor> tensors) {
  const DType dtype = tensors[0].dtype;
  const bool widen = dtype != dtype_of<T>();
  const Row row(tensors, plan.total);
  Slices<T> slices(plan, tensors.size());
  const std::size_t received = plan.slice * plan.counts.size();
  {
    const Block<std::byte> narrow(widen ? received * dtype_size(dtype) : 0);
    const Tensor in(widen ? static_cast<void*>(narrow.get()) : slices.values(), received, dtype);
    XOE_CO_TRY(comm.start_alltoall(row.tensor(), plan.counts, in, plan.received));
    if (widen) reduce::cast(in.data, dtype, slices.values(), dtype_of<T>(), received);
  }
  for (std::size_t distance = 1; distance < plan.counts.size(); distance *= 2) {
    auto& products = slices.multiply(distance);
    const Tensor scalars(products.data()->data(), products.size() * std::tuple_size_v<Products>, DType::kFloat64);
    XOE_CO_TRY(comm.start_allreduce(scalars, scalars));
    slices.combine_pairs(distance);
  }
  auto* own = static_cast<std::byte*>(row.tensor().data) + plan.start * dtype_size(dtype);
  reduce::cast(slices.values(), dtype_of<T>(), own, dtype, plan.slice);
  XOE_CO_TRY(comm.start_allgather(ConstTensor(own, plan.slice, dtype), row.tensor(), plan.counts));
  row.write_back();
  co_return Status();
}

Task run_checked(Communicator& comm, std::vector<Tensor> tensors) {
  if (Status good = check(tensors); !good) co_return good;
  if (comm.size() == 1) co_return Status();
  const Plan plan = make_plan(tensors, comm.rank(), comm.size());
  if (plan.total == 0) co_return Status();
  if (tensors[0].dtype == DType::kFloat64)
    XOE_CO_TRY(run<double>(comm, plan, tensors));
  else
    XOE_CO_TRY(run<float>(comm, plan, tensors));
  co_return Status();
}

}  // namespace

Task adasum(Communicator& comm, std::span<const Tensor> tensors) {
  return run_checked(comm, std::vector<Tensor>(tensors.begin(), tensors.end()));
}

}  // namespace xoe::engine
