#include "train/trainer/state_dict.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/error.h"

namespace xoe::train {
namespace {

enum class Kind : std::uint8_t { kNone, kNumber, kText, kGlobal, kTuple, kDict, kStorage, kTensor, kList, kMark };

// What pickle's stack holds. Values refer to others, so that a small file cannot make many of them.
struct Value {
  Kind kind = Kind::kNone;
  std::int64_t number = 0;                         // also truth
  std::string text = {};                           // of a global: "module.name"
  std::vector<std::shared_ptr<Value>> items = {};  // of a dictionary: key, value, key, value
  StoredTensor tensor = {};                        // of a storage: type, record and number of elements
  int depth = 0;
};
using Handle = std::shared_ptr<Value>;

constexpr int kDeepest = 32;  // a state dict has 4: dictionary, tensor, and the dictionary of versions
// Bounds of what a small file can make of memory; a network of 1,000 tensors has 50,000 operations.
constexpr std::size_t kMostOperations = 1'000'000;
constexpr std::size_t kLongestName = 512;
constexpr std::size_t kMostDimensions = 64;
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kStorages = {{{"torch.FloatStorage", "F32"},
                                                                                     {"torch.DoubleStorage", "F64"},
                                                                                     {"torch.HalfStorage", "F16"},
                                                                                     {"torch.BFloat16Storage", "BF16"},
                                                                                     {"torch.LongStorage", "I64"},
                                                                                     {"torch.IntStorage", "I32"},
                                                                                     {"torch.CharStorage", "I8"},
                                                                                     {"torch.ByteStorage", "U8"},
                                                                                     {"torch.BoolStorage", "BOOL"}}};

Error broken() { return {Code::kDataLoss, "its pickle is damaged"}; }

Error unsupported(std::string_view what) {
  return {Code::kDataLoss, fmt::format("it holds {}; only a dictionary of tensors is read, as from "
                                       "torch.save(model.state_dict(), ...)",
                                       what)};
}

// Whether these may be the sizes or strides of a tensor.
bool are_sizes(const Value& tuple) {
  return tuple.kind == Kind::kTuple && tuple.items.size() <= kMostDimensions &&
         std::ranges::all_of(tuple.items, [](const Handle& item) { return item->kind == Kind::kNumber; });
}

std::vector<std::int64_t> numbers_of(const Value& tuple) {
  std::vector<std::int64_t> numbers;
  for (const Handle& item : tuple.items) numbers.push_back(item->number);
  return numbers;
}

// Whether all elements lie within the storage.
bool fits(const StoredTensor& tensor) {
  if (tensor.offset < 0 || tensor.shape.size() != tensor.strides.size()) return false;
  std::int64_t count = 1;
  std::int64_t last = tensor.offset;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    std::int64_t reach = 0;
    if (tensor.shape[i] < 0 || tensor.strides[i] < 0 || __builtin_mul_overflow(count, tensor.shape[i], &count) ||
        __builtin_mul_overflow(std::max<std::int64_t>(tensor.shape[i] - 1, 0), tensor.strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return false;
  }
  return count == 0 || (count <= tensor.storage_elements && last < tensor.storage_elements);
}

class Machine {
 public:
  explicit Machine(std::string_view pickle) : rest_(pickle) {}

  // The dictionary or list that the pickle is of.
  Result<Handle> run(Kind kind) {
    while (true) {
      const auto code = take<std::uint8_t>();
      if (!code) return failure(broken());
      if (*code == '.') break;
      XOE_TRY(count(1));
      XOE_TRY(execute(static_cast<char>(*code)));
    }
    if (stack_.size() != 1) return failure(broken());
    if (stack_.back()->kind != kind) return failure(unsupported("something else"));
    return stack_.back();
  }
  std::string_view rest() const { return rest_; }  // what stands behind the pickle

 private:
  // Each value needs a few hundred bytes of memory, but one byte of the file.
  Status count(std::size_t operations) {
    operations_ += operations;
    if (operations_ > kMostOperations)
      return failure(unsupported(fmt::format("more than {} operations of pickle", kMostOperations)));
    return {};
  }

  template <typename T>
  std::optional<T> take() {
    if (rest_.size() < sizeof(T)) return std::nullopt;
    const T value = load_little<T>(rest_.data());
    rest_.remove_prefix(sizeof(T));
    return value;
  }

  std::optional<std::string_view> take_bytes(std::size_t count) {
    if (rest_.size() < count) return std::nullopt;
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }

  Status push(Value value) {
    for (const Handle& item : value.items) value.depth = std::max(value.depth, item->depth + 1);
    if (value.depth > kDeepest) return failure(unsupported("deeply nested values"));
    stack_.push_back(std::make_shared<Value>(std::move(value)));
    return {};
  }

  template <typename T>
  Status push_number() {
    const auto number = take<T>();
    return number ? push({.kind = Kind::kNumber, .number = *number}) : failure(broken());
  }

  template <typename Length = std::uint32_t>
  Status push_text() {
    const auto length = take<Length>();
    const auto text = length ? take_bytes(*length) : std::nullopt;
    return text ? push({.kind = Kind::kText, .text = std::string(*text)}) : failure(broken());
  }

  // Whole numbers of up to 8 bytes, little-endian and signed.
  Status push_long() {
    const auto length = take<std::uint8_t>();
    const auto bytes = length && *length <= sizeof(std::int64_t) ? take_bytes(*length) : std::nullopt;
    if (!bytes) return failure(broken());
    std::uint64_t number = !bytes->empty() && static_cast<signed char>(bytes->back()) < 0 ? ~std::uint64_t{0} : 0;
    for (auto byte = bytes->rbegin(); byte != bytes->rend(); ++byte)
      number = number << 8 | static_cast<unsigned char>(*byte);
    return push({.kind = Kind::kNumber, .number = static_cast<std::int64_t>(number)});
  }

  Status push_global() {
    std::string name;
    for (const char separator : {'.', '\0'}) {
      const auto end = rest_.find('\n');
      if (end == std::string_view::npos) return failure(broken());
      name += rest_.substr(0, end);
      if (separator != '\0') name += separator;
      rest_.remove_prefix(end + 1);
    }
    return push({.kind = Kind::kGlobal, .text = std::move(name)});
  }

  // The topmost values, in the order in which they were pushed.
  Result<std::vector<Handle>> pop(std::size_t count) {
    if (stack_.size() < count) return failure(broken());
    std::vector<Handle> popped(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    if (std::ranges::any_of(popped, [](const Handle& value) { return value->kind == Kind::kMark; }))
      return failure(broken());
    return popped;
  }

  Result<std::vector<Handle>> pop_to_mark() {
    const auto mark =
        std::find_if(stack_.rbegin(), stack_.rend(), [](const Handle& v) { return v->kind == Kind::kMark; });
    if (mark == stack_.rend()) return failure(broken());
    XOE_ASSIGN(auto popped, pop(static_cast<std::size_t>(mark - stack_.rbegin())));
    stack_.pop_back();
    return popped;
  }

  Status make_tuple(Result<std::vector<Handle>> items) {
    if (!items) return failure(items.error());
    return push({.kind = Kind::kTuple, .items = std::move(*items)});
  }

  Status set_items(Result<std::vector<Handle>> items) {
    if (!items) return failure(items.error());
    if (stack_.empty() || stack_.back()->kind != Kind::kDict || items->size() % 2 != 0) return failure(broken());
    Value& dict = *stack_.back();
    for (Handle& item : *items) {
      dict.depth = std::max(dict.depth, item->depth + 1);
      dict.items.push_back(std::move(item));
    }
    return dict.depth > kDeepest ? failure(unsupported("deeply nested values")) : Status();
  }

  Status append(Result<std::vector<Handle>> items) {
    if (!items) return failure(items.error());
    if (stack_.empty() || stack_.back()->kind != Kind::kList) return failure(broken());
    Value& list = *stack_.back();
    for (Handle& item : *items) {
      list.depth = std::max(list.depth, item->depth + 1);
      list.items.push_back(std::move(item));
    }
    return list.depth > kDeepest ? failure(unsupported("deeply nested values")) : Status();
  }

  template <typename T>
  Status remember() {
    const auto place = take<T>();
    if (!place || stack_.empty()) return failure(broken());
    memo_[*place] = stack_.back();
    return {};
  }

  template <typename T>
  Status recall() {
    const auto place = take<T>();
    const auto found = place ? memo_.find(*place) : memo_.end();
    // A dictionary or a list could be put into itself.
    if (found == memo_.end() || found->second->kind == Kind::kDict || found->second->kind == Kind::kList)
      return failure(broken());
    stack_.push_back(found->second);
    return {};
  }

  // ("storage", type, record, device, number of elements), in older files with None, or where it is a part of another
  // storage.
  Status push_storage() {
    XOE_ASSIGN(const auto popped, pop(1));
    const auto& parts = popped[0]->items;
    if (popped[0]->kind != Kind::kTuple || (parts.size() != 5 && parts.size() != 6) ||
        parts[1]->kind != Kind::kGlobal || parts[2]->kind != Kind::kText || parts[2]->text.size() > kLongestName ||
        parts[4]->kind != Kind::kNumber || parts[4]->number < 0)
      return failure(broken());
    if (parts.size() == 6 && parts[5]->kind != Kind::kNone)
      return failure(unsupported("a storage that is a part of another one"));
    const auto* const type = std::ranges::find(kStorages, parts[1]->text, [](const auto& pair) { return pair.first; });
    if (type == kStorages.end()) return failure(unsupported(parts[1]->text));
    return push(
        {.kind = Kind::kStorage,
         .tensor = {
             .dtype = std::string(type->second), .record = parts[2]->text, .storage_elements = parts[4]->number}});
  }

  // Of its pairs of key and value, lists or tuples: Python 2 writes an ordered dictionary so.
  Status push_dict(const Value& pairs) {
    const auto holds_items = [](const Value& value) { return value.kind == Kind::kList || value.kind == Kind::kTuple; };
    if (!holds_items(pairs)) return failure(broken());
    XOE_TRY(count(pairs.items.size()));
    Value dict = {.kind = Kind::kDict};
    for (const Handle& pair : pairs.items) {
      if (!holds_items(*pair) || pair->items.size() != 2) return failure(broken());
      dict.items.insert(dict.items.end(), pair->items.begin(), pair->items.end());
    }
    return push(std::move(dict));
  }

  // The few functions that files of tensors call.
  Status reduce() {
    XOE_ASSIGN(const auto popped, pop(2));
    const std::string& function = popped[0]->text;
    const auto& arguments = popped[1]->items;
    if (popped[0]->kind != Kind::kGlobal || popped[1]->kind != Kind::kTuple) return failure(broken());
    if (function == "collections.OrderedDict" && arguments.empty()) return push({.kind = Kind::kDict});
    if (function == "collections.OrderedDict" && arguments.size() == 1) return push_dict(*arguments[0]);
    if (function == "torch._utils._rebuild_parameter" && !arguments.empty() && arguments[0]->kind == Kind::kTensor) {
      stack_.push_back(arguments[0]);
      return {};
    }
    if (function != "torch._utils._rebuild_tensor_v2" && function != "torch._utils._rebuild_tensor")
      return failure(unsupported(function));
    // storage, offset, shape, strides, and what concerns gradients
    if (arguments.size() < 4 || arguments[0]->kind != Kind::kStorage || arguments[1]->kind != Kind::kNumber ||
        !are_sizes(*arguments[2]) || !are_sizes(*arguments[3]))
      return failure(broken());
    StoredTensor tensor = arguments[0]->tensor;
    tensor.offset = arguments[1]->number;
    tensor.shape = numbers_of(*arguments[2]);
    tensor.strides = numbers_of(*arguments[3]);
    if (!fits(tensor)) return failure(Code::kDataLoss, "a tensor in it reaches beyond its bytes");
    return push({.kind = Kind::kTensor, .tensor = std::move(tensor)});
  }

  Status execute(char code) {
    switch (code) {
      case '\x80': return take<std::uint8_t>() ? Status() : failure(broken());  // the protocol's version
      case '(': return push({.kind = Kind::kMark});
      case ')': return push({.kind = Kind::kTuple});
      case '}': return push({.kind = Kind::kDict});
      case 'N': return push({});
      case '\x88': return push({.kind = Kind::kNumber, .number = 1});
      case '\x89': return push({.kind = Kind::kNumber, .number = 0});
      case 'K': return push_number<std::uint8_t>();
      case 'M': return push_number<std::uint16_t>();
      case 'J': return push_number<std::int32_t>();
      case '\x8a': return push_long();
      case 'X': return push_text();
      case 'T': return push_text();  // of Python 2
      case 'U': return push_text<std::uint8_t>();
      case ']': return push({.kind = Kind::kList});
      case 'a': return append(pop(1));
      case 'e': return append(pop_to_mark());
      case 'c': return push_global();
      case 't': return make_tuple(pop_to_mark());
      case '\x85': return make_tuple(pop(1));
      case '\x86': return make_tuple(pop(2));
      case '\x87': return make_tuple(pop(3));
      case 's': return set_items(pop(2));
      case 'u': return set_items(pop_to_mark());
      case 'q': return remember<std::uint8_t>();
      case 'r': return remember<std::uint32_t>();
      case 'h': return recall<std::uint8_t>();
      case 'j': return recall<std::uint32_t>();
      case 'Q': return push_storage();
      case 'R': return reduce();
      case 'b': {  // an attribute of the dictionary: the versions of its modules
        XOE_ASSIGN(const auto ignored, pop(1));
        return {};
      }
      default:
        return failure(unsupported(fmt::format("the operation {:#04x} of pickle", static_cast<unsigned char>(code))));
    }
  }

  std::string_view rest_;
  std::size_t operations_ = 0;
  std::vector<Handle> stack_;
  std::map<std::uint32_t, Handle> memo_;
};

}  // namespace

namespace {

// Of a pickled dictionary.
Result<std::vector<StoredTensor>> tensors_of(const Value& dict) {
  std::vector<StoredTensor> tensors;
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const Value& key = *dict.items[i];
    const Value& value = *dict.items[i + 1];
    if (key.kind != Kind::kText || key.text.size() > kLongestName)
      return failure(unsupported("a key that is not a name"));
    if (value.kind != Kind::kTensor) return failure(unsupported(fmt::format("{}, which is no tensor", key.text)));
    tensors.push_back(value.tensor);
    tensors.back().name = key.text;
  }
  return tensors;
}

// Pickles of a number that marks such files, and of their version.
constexpr std::string_view kLegacyStart("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.",
                                        21);

std::size_t bytes_of_type(std::string_view dtype) {
  if (dtype == "F64" || dtype == "I64") return 8;
  if (dtype == "F32" || dtype == "I32") return 4;
  return dtype == "F16" || dtype == "BF16" ? 2 : 1;
}

// Each begins with its number of elements.
Status take_storages(std::string_view bytes, const Value& records, LegacyStateDict& found) {
  std::map<std::string_view, std::size_t> sizes;  // of elements
  for (const StoredTensor& tensor : found.tensors) sizes[tensor.record] = bytes_of_type(tensor.dtype);
  for (const Handle& record : records.items) {
    const auto size = sizes.find(record->text);
    if (record->kind != Kind::kText || size == sizes.end()) return failure(broken());
    if (bytes.size() < sizeof(std::int64_t)) return failure(Code::kDataLoss, "it is cut off");
    const auto count = load_little<std::uint64_t>(bytes.data());
    bytes.remove_prefix(sizeof(std::int64_t));
    if (count > bytes.size() / size->second) return failure(Code::kDataLoss, "it is cut off");
    found.storages[record->text] = bytes.substr(0, count * size->second);
    bytes.remove_prefix(count * size->second);
  }
  for (const StoredTensor& tensor : found.tensors) {
    const auto storage = found.storages.find(tensor.record);
    if (storage == found.storages.end() ||
        storage->second.size() / bytes_of_type(tensor.dtype) < static_cast<std::size_t>(tensor.storage_elements))
      return failure(Code::kDataLoss, "{} is cut off", tensor.name);
  }
  return {};
}

}  // namespace

Result<std::vector<StoredTensor>> parse_state_dict(std::string_view pickle) {
  XOE_ASSIGN(const Handle dict, Machine(pickle).run(Kind::kDict));
  return tensors_of(*dict);
}

bool is_legacy_state_dict(std::string_view file) { return file.starts_with(kLegacyStart); }

Result<LegacyStateDict> parse_legacy_state_dict(std::string_view file) {
  if (!is_legacy_state_dict(file)) return failure(broken());
  Machine system(file.substr(kLegacyStart.size()));  // a dictionary of facts about the machine that wrote it
  XOE_ASSIGN(const Handle facts, system.run(Kind::kDict));
  for (std::size_t i = 0; i + 1 < facts->items.size(); i += 2)
    if (facts->items[i]->text == "little_endian" && facts->items[i + 1]->number != 1)
      return failure(unsupported("numbers with the highest byte first"));
  Machine state(system.rest());
  XOE_ASSIGN(const Handle dict, state.run(Kind::kDict));
  LegacyStateDict found;
  XOE_ASSIGN(found.tensors, tensors_of(*dict));
  Machine records(state.rest());
  XOE_ASSIGN(const Handle list, records.run(Kind::kList));
  XOE_TRY(take_storages(records.rest(), *list, found));
  return found;
}

}  // namespace xoe::train
