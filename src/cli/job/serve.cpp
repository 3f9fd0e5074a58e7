// simulate serve: a local web page on which a job is changed and forecast again.
#include "stepcast/serve/serve.h"

#include <fmt/format.h>
#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>

#include "../command_line/command_line.h"
#include "../command_line/terminal.h"
#include "../options/job_options.h"
#include "../output/output.h"
#include "commands.h"
#include "stepcast/text/document.h"

namespace stepcast::cli {
namespace {

struct ServeOptions {
  JobOptions job;
  std::string address = "127.0.0.1";
  std::string port = "8421";
};

// Answers until SIGINT or SIGTERM. A second signal ends the process without waiting for forecasts.
void serve_until_signal(serve::Server& server, const sigset_t& signals) {
  std::atomic<bool> over = false;
  std::thread waiting([&] {
    for (bool stopping = false;; stopping = true) {
      int which = 0;
      sigwait(&signals, &which);
      if (over) {
        return;
      }
      if (stopping) {
        std::_Exit(128 + which);
      }
      server.stop();
    }
  });
  server.run();
  over = true;
  pthread_kill(waiting.native_handle(), SIGTERM);
  waiting.join();
}

int run_serve(const ServeOptions& given) {
  require_config(given.job);
  serve::Options options;
  options.config = given.job.config;
  options.overrides = given.job.overrides;
  options.data = text::data_directory();
  options.address = given.address;
  options.port = integer_option("--port", given.port, 0);
  if (constexpr int kLast = 65535; options.port > kLast) {
    throw option_fault("--port",
                       fmt::format("'{}' is not valid; expected 0 to {}", given.port, kLast));
  }
  // Blocked before any thread starts, so that only the waiting thread receives the signals.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  serve::Server server(options);
  if (given.address != "127.0.0.1" && given.address != "::1" && given.address != "localhost") {
    write_stderr(
        fmt::format("simulate: there is no password: everyone who can reach {} can use the page\n",
                    given.address));
  }
  write_stdout("serve", server.url() + "\n");
  serve_until_signal(server, signals);
  return done;
}

}  // namespace

Run add_serve(Command& app) {
  auto given = std::make_shared<ServeOptions>();
  add_job_options(app, given->job);
  app.add_option("--address", given->address,
                 "address to listen on; by default other machines cannot reach the page")
      .type_name("ADDRESS")
      .show_default();
  app.add_option("--port", given->port, "port to listen on; 0: any free one")
      .type_name("N")
      .show_default();
  app.footer =
      "Prints the address of the page and serves it until interrupted.\n"
      "Examples:\n"
      "  simulate serve --config llama70b\n"
      "  simulate serve --config job.yaml --port 0";
  return [given] { return run_serve(*given); };
}

}  // namespace stepcast::cli
