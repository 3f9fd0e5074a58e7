// Watches the connections to a port beside cpp-httplib, which limits neither how long a request may
// take to arrive nor how large its header is, and tells no handler that the client has left.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "stepcast/base/stop.h"

namespace stepcast::serve {

struct WatchLimits {
  std::uint64_t bytes = std::uint64_t{1} << 20;  // of a request, its header and framing included
  std::chrono::milliseconds patience{10'000};    // in all, for bytes that the client has not sent
  std::chrono::milliseconds period{200};         // between two looks
};

// Closes connections whose requests exceed the limits. Waiting for the server counts as nothing.
class Watch {
 public:
  // `idle` is called once whenever the last connection has ended.
  explicit Watch(int port, const WatchLimits& limits = {}, std::function<void()> idle = {});
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // A request that has arrived and is now answered. Its stop is asked once the client has closed
  // the connection, also for writing alone.
  class Answering {
   public:
    Answering(Watch& watch, const std::string& address, int port, Stop& stop);
    ~Answering();
    Answering(const Answering&) = delete;
    Answering& operator=(const Answering&) = delete;

   private:
    Watch& watch_;
    std::string client_;
  };

 private:
  struct Connection {
    std::string client;
    std::chrono::milliseconds waited{0};  // for the client
    std::uint64_t looked = 0;             // the last look that found it
  };
  void look();
  void look_at(int descriptor, std::uint64_t inode);

  const int port_;
  const WatchLimits limits_;
  const std::function<void()> idle_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool ended_ = false;
  std::map<std::string, Stop*> answered_;            // by client
  std::map<std::uint64_t, Connection> connections_;  // by inode: a descriptor's number returns
  std::uint64_t looks_ = 0;
  std::thread thread_;
};

}  // namespace stepcast::serve
