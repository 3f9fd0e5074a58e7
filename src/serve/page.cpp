#include "page.h"

#include <nlohmann/json.hpp>

#include "assets.h"
#include "stepcast/config/config.h"
#include "stepcast/report/page.h"
#include "stepcast/schedule/schedule.h"

namespace stepcast::serve {

std::string page_text(const Options& options, const std::string& title) {
  using Json = nlohmann::ordered_json;
  Json start{{"config", options.config}, {"set", options.overrides}};
  for (const char* kind : {"clusters", "devices", "models", "systems"}) {
    start[kind] = config::list(kind);
  }
  start["schedules"] = Json::array();
  for (const schedule::Entry& entry : schedule::table()) {
    start["schedules"].push_back(entry.name);
  }
  report::Page page("What if", title);
  page.allow_own_server();
  page.add("<style>\n" + std::string(asset("serve.css")) + "</style>\n");
  page.add(std::string(asset("serve.html")));
  page.add(
      report::embedded_json("start", start.dump(-1, ' ', false, Json::error_handler_t::replace)));
  page.add("<script defer>\n" + std::string(asset("serve.js")) + "</script>\n");
  return page.finish();
}

}  // namespace stepcast::serve
