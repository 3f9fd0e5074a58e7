// The page of `simulate serve`: markup, style and script in one text.
#pragma once

#include <string>

#include "stepcast/serve/serve.h"

namespace stepcast::serve {

std::string page_text(const Options& options, const std::string& title);

}  // namespace stepcast::serve
