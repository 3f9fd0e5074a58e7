// Reads the pickles that the tests check: the opcodes of protocols 2 to 4 for numbers, text, lists,
// tuples and dicts. A tuple becomes an array; any other opcode fails the test.
#pragma once

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace stepcast::test {

class PickleReader {
 public:
  explicit PickleReader(std::string bytes) : bytes_(std::move(bytes)) {}

  nlohmann::json read() {
    using nlohmann::json;
    for (;;) {
      const auto op = static_cast<unsigned char>(next(1)[0]);
      switch (op) {
        case 0x80:
          protocol_ = static_cast<int>(little(1));
          break;
        case 0x95:
          little(8);
          break;
        case '(':
          marks_.push_back(stack_.size());
          break;
        case '}':
          stack_.push_back(json::object());
          break;
        case ']':
          stack_.push_back(json::array());
          break;
        case 'u': {
          std::vector<json> items = above_mark();
          if (items.size() % 2 != 0) {
            throw std::runtime_error("a dict's key without a value");
          }
          for (std::size_t i = 0; i < items.size(); i += 2) {
            if (stack_.back().contains(items[i].get<std::string>())) {
              throw std::runtime_error("a dict's key stands twice");
            }
            stack_.back()[items[i].get<std::string>()] = std::move(items[i + 1]);
          }
          break;
        }
        case 'e': {
          for (json& item : above_mark()) {
            stack_.back().push_back(std::move(item));
          }
          break;
        }
        case 0x86: {
          json second = pop(), first = pop();
          stack_.push_back(json::array({std::move(first), std::move(second)}));
          break;
        }
        case 0x8c:
          stack_.emplace_back(next(static_cast<std::size_t>(little(1))));
          break;
        case 'X':
          stack_.emplace_back(next(static_cast<std::size_t>(little(4))));
          break;
        case 'K':
          stack_.emplace_back(little(1));
          break;
        case 'M':
          stack_.emplace_back(little(2));
          break;
        case 'J':
          stack_.emplace_back(static_cast<std::int32_t>(static_cast<std::uint32_t>(little(4))));
          break;
        case 0x8a: {
          const auto size = static_cast<int>(little(1));
          if (size != 8) {
            throw std::runtime_error("a long of other than eight bytes");
          }
          stack_.emplace_back(little(8));
          break;
        }
        case 'G': {
          std::uint64_t bits = 0;
          for (const char c : next(8)) {
            bits = bits << 8 | static_cast<unsigned char>(c);
          }
          double value = 0;
          std::memcpy(&value, &bits, sizeof value);
          stack_.emplace_back(value);
          break;
        }
        case 0x88:
          stack_.emplace_back(true);
          break;
        case 0x89:
          stack_.emplace_back(false);
          break;
        case 0x94:
          memo_.push_back(stack_.back());
          break;
        case 'h':
          stack_.push_back(memo_.at(static_cast<std::size_t>(little(1))));
          break;
        case 'j':
          stack_.push_back(memo_.at(static_cast<std::size_t>(little(4))));
          break;
        case '.':
          if (at_ != bytes_.size() || stack_.size() != 1 || !marks_.empty()) {
            throw std::runtime_error("the pickle does not end where it stops");
          }
          return pop();
        default:
          throw std::runtime_error("unknown opcode " + std::to_string(op));
      }
    }
  }
  int protocol() const { return protocol_; }

 private:
  std::string next(std::size_t count) {
    if (at_ + count > bytes_.size()) {
      throw std::runtime_error("the pickle is cut short");
    }
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  std::int64_t little(int count) {
    std::uint64_t value = 0;
    int shift = 0;
    for (const char c : next(static_cast<std::size_t>(count))) {
      value |= std::uint64_t{static_cast<unsigned char>(c)} << shift;
      shift += 8;
    }
    return static_cast<std::int64_t>(value);
  }
  nlohmann::json pop() {
    nlohmann::json top = std::move(stack_.back());
    stack_.pop_back();
    return top;
  }
  std::vector<nlohmann::json> above_mark() {
    const auto mark = static_cast<std::ptrdiff_t>(marks_.back());
    marks_.pop_back();
    std::vector<nlohmann::json> out(std::make_move_iterator(stack_.begin() + mark),
                                    std::make_move_iterator(stack_.end()));
    stack_.resize(static_cast<std::size_t>(mark));
    return out;
  }

  std::string bytes_;
  std::size_t at_ = 0;
  int protocol_ = 0;
  std::vector<nlohmann::json> stack_, memo_;
  std::vector<std::size_t> marks_;
};

}  // namespace stepcast::test
