// Indices into tables as types: the number of a rank is not the number of a communicator.
//
// An id reads as its integer, so that it indexes a vector, prints and compares with a size. None comes from an integer
// or from another id unasked: constants of the source text excepted, `RankId::at(i)` says that i is one.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <type_traits>

namespace stepcast {

// An integer, or an enumerator that reads as one.
template <class T>
concept Number = std::integral<T> || (std::is_enum_v<T> && std::convertible_to<T, std::uint64_t>);

template <class Tag, std::unsigned_integral Rep = std::uint32_t>
class Id {
 public:
  using rep = Rep;
  constexpr Id() = default;
  template <Number Constant>
  consteval Id(Constant value) : value_(static_cast<Rep>(value)) {}  // NOLINT(google-explicit-constructor)
  // The caller answers for `value` fitting in Rep.
  template <Number Value>
  static constexpr Id at(Value value) {
    Id id;
    id.value_ = static_cast<Rep>(value);
    return id;
  }
  constexpr operator Rep() const { return value_; }  // NOLINT(google-explicit-constructor)
  constexpr Rep value() const { return value_; }
  constexpr Id& operator++() {
    ++value_;
    return *this;
  }

 private:
  Rep value_ = 0;
};

// Ids of different tables neither compare nor mix.
template <class A, class RepA, class B, class RepB>
  requires(!std::same_as<A, B>)
bool operator==(Id<A, RepA>, Id<B, RepB>) = delete;
template <class A, class RepA, class B, class RepB>
  requires(!std::same_as<A, B>)
auto operator<=>(Id<A, RepA>, Id<B, RepB>) = delete;

// As what fmt 10 and later print an id; fmt 9 converts it itself.
template <class Tag, class Rep>
constexpr Rep format_as(Id<Tag, Rep> id) {
  return id.value();
}

// The curve that priced something, in the table that `cost` makes and a World carries.
using CurveId = Id<struct CurveTag, std::uint16_t>;

}  // namespace stepcast

template <class Tag, class Rep>
struct std::hash<stepcast::Id<Tag, Rep>> {
  std::size_t operator()(stepcast::Id<Tag, Rep> id) const noexcept { return id.value(); }
};
