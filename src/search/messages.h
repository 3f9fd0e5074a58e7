// Messages between rank 0 and the other ranks: bytes with a tag.
#pragma once

#include <optional>
#include <string>

namespace stepcast::search {

enum class Tag : int {
  start = 1,  // from 0: objective, threads, data directory
  ready,      // to 0: how many threads evaluate on the sender
  order,      // from 0
  answer,     // to 0
  stop,       // from 0
};

struct Message {
  Tag tag = Tag::stop;
  int from = 0;
  std::string text;
};

// Sends without waiting for the receiver. Throws std::runtime_error.
void send(int to, Tag tag, std::string text);
// Returns a message that has arrived, if any.
std::optional<Message> receive();

}  // namespace stepcast::search
