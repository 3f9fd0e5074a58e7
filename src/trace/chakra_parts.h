// What Chakra's two formats have in common.
#pragma once

#include <string_view>

#include "stepcast/trace/chakra.h"

namespace stepcast::trace {

inline constexpr std::string_view kChakraVersion = "0.0.4";

// Numbers beyond the schema's are invalid nodes.
ChakraType chakra_type(std::int64_t number);
// An attribute of a node, whichever it is; those that are not used are passed over.
void set_attribute(ChakraNode& node, std::string_view name, std::int64_t number,
                   std::string_view text);
// From microseconds; what Time cannot hold counts as not stated.
Time chakra_time(std::int64_t microseconds);

// Whether the file's first message is Chakra's metadata.
bool has_chakra_metadata(const std::filesystem::path& file);
ChakraTrace read_chakra_protobuf(const std::filesystem::path& file);
ChakraTrace read_chakra_json(const std::filesystem::path& file);

}  // namespace stepcast::trace
