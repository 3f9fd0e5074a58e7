// How the values of an enum are written: one table for each enum, which every reader and writer uses.
//
// An enum E has a table where a function `constexpr auto spellings(E)` in E's namespace returns an array of
// Spelling<E>: each value once, in the order in which lists of them are printed.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <type_traits>

namespace stepcast {

template <class E>
struct Spelling {
  E value;
  const char* word;
};

template <class E>
concept Spelled = std::is_enum_v<E> && requires(E e) { spellings(e); };

// The word of a value; empty where the table does not list it.
template <Spelled E>
constexpr const char* to_string(E value) {
  for (const Spelling<E>& s : spellings(value)) {
    if (s.value == value) {
      return s.word;
    }
  }
  return "";
}

// The value of a word, which is spelled exactly as in the table; nothing for any other word.
template <Spelled E>
constexpr std::optional<E> parse(std::string_view word) {
  for (const Spelling<E>& s : spellings(E{})) {
    if (word == s.word) {
      return s.value;
    }
  }
  return std::nullopt;
}

// All words of an enum, in the order of its table.
template <Spelled E>
constexpr auto words_of() {
  constexpr auto table = spellings(E{});
  std::array<std::string_view, table.size()> out{};
  for (std::size_t i = 0; i < table.size(); ++i) {
    out[i] = table[i].word;
  }
  return out;
}

}  // namespace stepcast
