// `simulate serve`: the what-if as a page of the reader's own machine.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace stepcast::serve {

// Whether this build found cpp-httplib.
bool available();

struct Options {
  std::string config;                  // as --config takes it
  std::vector<std::string> overrides;  // below those of the page
  std::filesystem::path data;          // configs/ and calibration/
  std::string address = "127.0.0.1";
  int port = 0;  // 0: any that is free
};

// GET / is the page. POST /forecast with {"set": ["parallelism.tensor=4"], "fidelity": "folded" | "bound"} answers as
// `simulate --json` writes; POST /advice the same with what would make the job fit. 400: a request or override that
// cannot be read; 422: a job that cannot run; both with {"faults": [{"key", "message"}]}. Equal requests have equal
// bytes, however many come at once; the last few hundred answers are remembered.
//
// Whoever reaches the address may ask, so what a page of another site could do through a reader's browser is refused:
// a Host that is a name other than localhost, another site's Origin, a body that is not declared as JSON, bodies above
// 64 KiB, and overrides that name files instead of entries of configs/.
class Server {
 public:
  // Reads and forecasts the job and listens; throws InputError for a job or an address that does not do.
  explicit Server(const Options& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const;
  std::string url() const;  // "http://127.0.0.1:8421/"
  void run();               // answers until stop(), which any thread may call
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stepcast::serve
