// The fields of a struct as a table, one line for each: JSON, its schema, options and help are made from it.
//
//   constexpr auto fields_of(const Team*) {
//     return std::tuple(field<&Team::name>("name", {.required = true}),
//                       field<&Team::quota>("quota", {.what = "GPUs that it can count on", .least = 0, .most = 1024}));
//   }
//
// stands in the namespace of the struct, where the readers of the table find it. Types of values: bool, integers,
// double, text, durations, times of the system's clock, enumerations with `names_of()`, structs with a table, and
// std::optional, OrNull, std::vector and maps by text of these.
#pragma once

#include <concepts>
#include <cstddef>
#include <limits>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace xoe::describe {

struct Rules {
  std::string_view what = {};  // what the value means, with its unit: a clause, for people
  // Numbers, spans and times (in seconds).
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  double above = -std::numeric_limits<double>::infinity();
  std::size_t shortest = 0;         // bytes of a text, also of each in a list
  std::size_t longest = 4096;       // "
  std::size_t entries = 1024;       // of a list
  bool required = false;            // input without it is refused
  bool if_set = false;              // output leaves it out where it has its default
  std::string_view pattern = {};    // a regular expression, for schemas: the reader's own check is the caller's
  std::string_view stored_as = {};  // its name in a database, where that is another
  bool always_stored = false;       // since there is a database: one that lacks it is damaged
  // These are for texts that people write (text.h).
  double below = std::numeric_limits<double>::infinity();
  std::optional<double> automatic = {};  // the number that "auto" stands for
  bool is_bytes = false;                 // also "512K", "2GiB"
  std::string_view group = {};           // the heading that it stands under, with the lines that follow
  // A command line may have an option of the field's name, as "--same-nvlink"; help calls its value by the second.
  bool option = false;
  std::string_view placeholder = {};
  std::string_view otherwise = {};  // the words for its default, where that depends on others: "as the data has"
};

constexpr bool is_within(double value, const Rules& rules) {
  return value >= rules.least && value <= rules.most && value > rules.above && value < rules.below;
}

// The member at the end of a path of members.
template <auto kFirst, auto... kRest>
constexpr auto& member_of(auto& object) {
  if constexpr (sizeof...(kRest) == 0)
    return object.*kFirst;
  else
    return member_of<kRest...>(object.*kFirst);
}

template <class Owner, class T>
Owner owner_of(T Owner::*);

template <auto... kPath>
struct Field {
  using Owner = decltype(owner_of(std::get<0>(std::tuple(kPath...))));
  using Value = std::remove_cvref_t<decltype(member_of<kPath...>(std::declval<Owner&>()))>;

  static constexpr auto& of(auto& object) { return member_of<kPath...>(object); }

  // The same field of a struct that has the owner as a member.
  template <auto kMember>
  constexpr Field<kMember, kPath...> below() const {
    return {name, rules};
  }

  std::string_view name;
  Rules rules;
};

// field<&Lease::id>("id", {...}), field<&Lease::request, &LeaseRequest::gpus>("count", {...})
template <auto... kPath>
constexpr Field<kPath...> field(std::string_view name, Rules rules = {}) {
  return {name, rules};
}

// The table of a member, for the table of its owner: its fields stand among the owner's own.
template <auto kMember>
constexpr auto fields_below() {
  using Part = typename Field<kMember>::Value;
  return std::apply([](const auto&... fields) { return std::tuple(fields.template below<kMember>()...); },
                    fields_of(static_cast<const Part*>(nullptr)));
}

template <class T>
concept Described = requires {
  fields_of(static_cast<const T*>(nullptr));
};

// The table as an object of the program: nothing is built when it is read.
template <Described T>
inline constexpr auto kFieldsOf = fields_of(static_cast<const T*>(nullptr));

// The line of a field in the table of its struct: line_of<&TrainOptions::batch>().rules.
template <auto... kPath>
constexpr const Field<kPath...>& line_of() {
  return std::get<Field<kPath...>>(kFieldsOf<typename Field<kPath...>::Owner>);
}

// Calls visit(field) for each line of the table of T.
template <Described T, class Visit>
constexpr void for_each_field(Visit&& visit) {
  std::apply([&visit](const auto&... fields) { (visit(fields), ...); }, kFieldsOf<T>);
}

template <class T>
concept Number = std::integral<T> || std::floating_point<T>;
template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

// A value that is there, and may be "not known": null in JSON. (A std::optional without a value is left out.)
template <class T>
struct OrNull {
  std::optional<T> value = {};
};

// An enumeration whose values count from 0, with their names in that order.
template <class T>
concept Named = std::is_enum_v<T> && requires {
  names_of(T());
};

}  // namespace xoe::describe
