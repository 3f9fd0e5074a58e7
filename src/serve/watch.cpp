#include "watch.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>

namespace stepcast::serve {
namespace {

// A descriptor of our own for a connection: the worker may close its own at any time, and the
// number may then mean another connection.
class Copy {
 public:
  explicit Copy(int number) {
    struct stat what {};
    // Only sockets: closing a copy of a file would drop the locks that this process holds on it.
    if (::fstat(number, &what) == 0 && S_ISSOCK(what.st_mode)) {
      descriptor_ = ::fcntl(number, F_DUPFD_CLOEXEC, 0);
    }
    if (descriptor_ >= 0 && ::fstat(descriptor_, &what) == 0 && S_ISSOCK(what.st_mode)) {
      inode_ = what.st_ino;
    }
  }
  ~Copy() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  bool socket() const { return inode_ != 0; }
  int descriptor() const { return descriptor_; }
  std::uint64_t inode() const { return inode_; }

 private:
  int descriptor_ = -1;
  std::uint64_t inode_ = 0;
};

std::string client_of(const std::string& address, int port) {
  return address + ' ' + std::to_string(port);
}

struct End {
  std::string address;
  int port = 0;
};

// One end of a connection; nothing for a socket that has none, such as the one that listens.
std::optional<End> end_of(int descriptor, int (*which)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  auto* const plain = reinterpret_cast<sockaddr*>(&at);
  if (which(descriptor, plain, &size) != 0) {
    return std::nullopt;
  }
  char host[NI_MAXHOST];
  if (::getnameinfo(plain, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) {
    return std::nullopt;  // of another family
  }
  const auto port = at.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&at)->sin6_port
                                             : reinterpret_cast<const sockaddr_in*>(&at)->sin_port;
  return End{host, ntohs(port)};
}

bool has_left(int descriptor) {
  pollfd one{descriptor, POLLRDHUP, 0};
  return ::poll(&one, 1, 0) > 0 && (one.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

// Bytes that have arrived but that no worker has read.
std::uint64_t unread(int descriptor) {
  int bytes = 0;
  return ::ioctl(descriptor, FIONREAD, &bytes) == 0 && bytes > 0 ? static_cast<std::uint64_t>(bytes)
                                                                 : 0;
}

std::uint64_t received(int descriptor) {
  tcp_info info{};
  socklen_t size = sizeof info;
  return ::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) == 0
             ? info.tcpi_bytes_received
             : 0;
}

}  // namespace

Watch::Answering::Answering(Watch& watch, const std::string& address, int port, Stop& stop)
    : watch_(watch), client_(client_of(address, port)) {
  const std::lock_guard lock(watch_.mutex_);
  watch_.answered_[client_] = &stop;
}

Watch::Answering::~Answering() {
  const std::lock_guard lock(watch_.mutex_);
  watch_.answered_.erase(client_);
}

Watch::Watch(int port, const WatchLimits& limits, std::function<void()> idle)
    : port_(port), limits_(limits), idle_(std::move(idle)) {
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (!ends_.wait_for(lock, limits_.period, [this] { return ended_; })) {
      look();
    }
  });
}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ends_.notify_one();
  thread_.join();
}

void Watch::look() {
  ++looks_;
  std::error_code none;
  std::filesystem::directory_iterator entry("/proc/self/fd", none);
  for (; !none && entry != std::filesystem::directory_iterator(); entry.increment(none)) {
    const std::string name = entry->path().filename().string();
    int number = -1;
    std::from_chars(name.data(), name.data() + name.size(), number);
    const Copy copy(number);
    if (copy.socket()) {
      look_at(copy.descriptor(), copy.inode());
    }
  }
  const std::size_t ended =
      std::erase_if(connections_, [this](const auto& one) { return one.second.looked != looks_; });
  if (ended > 0 && connections_.empty() && idle_) {
    idle_();
  }
}

void Watch::look_at(int descriptor, std::uint64_t inode) {
  auto found = connections_.find(inode);
  if (found == connections_.end()) {
    const auto own = end_of(descriptor, ::getsockname), other = end_of(descriptor, ::getpeername);
    if (!own || !other || own->port != port_) {
      return;
    }
    found = connections_.emplace(inode, Connection{client_of(other->address, other->port)}).first;
  }
  Connection& connection = found->second;
  if (connection.looked == looks_) {
    return;  // the listing named our own copy as well
  }
  connection.looked = looks_;
  const auto answered = answered_.find(connection.client);
  if (answered != answered_.end()) {
    if (has_left(descriptor)) {
      answered->second->ask();
    }
    return;
  }
  const std::uint64_t waiting = unread(descriptor);
  connection.waited += waiting == 0 ? limits_.period : std::chrono::milliseconds{0};
  if (connection.waited > limits_.patience || received(descriptor) > waiting + limits_.bytes) {
    ::shutdown(descriptor, SHUT_RDWR);
  }
}

}  // namespace stepcast::serve
