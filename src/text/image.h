// Documents that were parsed when the program was built. The shipped calibration is megabytes of
// YAML, which takes longer to parse than most forecasts take. An image holds the text of every file
// and the values that parsing it gives; a document is taken from it only where the file's text is
// still the same to the byte, so an edited file, another data folder or a missing image changes
// nothing but the time.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stepcast/text/document.h"

namespace stepcast::text {

// An image of the documents with these texts. Throws InputError where one is no YAML.
std::string image_of(std::vector<std::string> texts);

// A mapped image. Whatever its bytes are, reading from it is safe: a damaged one holds no
// documents.
class Image {
 public:
  explicit Image(const std::filesystem::path& file);  // a missing file gives an empty image
  ~Image();
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  // The document with exactly this text, as parse_yaml(text, name) gives it, but for an entry of
  // its outermost map that `without` names (none where it is empty); nothing where the image has
  // none.
  std::optional<Value> document(std::string_view text, const std::string& name,
                                std::string_view without = {}) const;

 private:
  std::string_view bytes_;
};

// The image that the build made, or that was installed beside the data.
const Image& built_image();

}  // namespace stepcast::text
