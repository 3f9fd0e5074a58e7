// `simulate serve`: a page on the user's own machine that forecasts variations of a job.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace stepcast::serve {

// Whether this build can serve, which needs cpp-httplib.
bool available();

struct Options {
  std::string config;                  // as --config takes it
  std::vector<std::string> overrides;  // applied before those of the page
  std::filesystem::path data;          // the folder with configs/ and calibration/
  std::string address = "127.0.0.1";
  int port = 0;  // 0: any free port
};

// GET / returns the page. POST /forecast with {"set": ["parallelism.tensor=4"], "fidelity": "folded" | "bound"} returns what
// `simulate --json` writes; POST /advice returns the same with changes that would make the job fit. Status 400: a request or
// an override cannot be read; 422: the job cannot run; both return {"faults": [{"key", "message"}]}. Equal requests get
// equal bytes, however many arrive at once; the last answers, 256 KiB of them, are cached.
//
// Everyone who reaches the address may send requests, so requests that a page of another site could send through a user's
// browser are refused: a Host that is a name other than localhost, the Origin of another site, a body that is not declared
// as JSON, a body above 64 KiB, and overrides that name files instead of entries of configs/.
class Server {
 public:
  // Reads the job, forecasts it and listens. Throws InputError where the job is faulty or the address cannot be used.
  explicit Server(const Options& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const;
  std::string url() const;  // "http://127.0.0.1:8421/"
  void run();               // answers requests until stop(), which any thread may call
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stepcast::serve
