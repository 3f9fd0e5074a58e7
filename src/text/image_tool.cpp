// Writes the image of all YAML files below some folders: image_tool OUTPUT FOLDER... (a step of the
// build).
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "files.h"
#include "image.h"

int main(int count, char** arguments) {
  namespace fs = std::filesystem;
  if (count < 3) {
    std::fprintf(stderr, "expected: image_tool OUTPUT FOLDER...\n");
    return 1;
  }
  try {
    std::vector<std::string> texts;
    for (int i = 2; i < count; ++i) {
      for (const auto& entry : fs::recursive_directory_iterator(arguments[i])) {
        if (entry.is_regular_file() && entry.path().extension() == ".yaml") {
          texts.push_back(stepcast::text::read_file(entry.path()));
        }
      }
    }
    const fs::path target = arguments[1];
    const fs::path unfinished = target.string() + ".new";
    std::ofstream out(unfinished, std::ios::binary);
    const std::string image = stepcast::text::image_of(std::move(texts));
    out.write(image.data(), static_cast<std::streamsize>(image.size()));
    out.close();
    if (!out) {
      std::fprintf(stderr, "%s: cannot be written\n", unfinished.c_str());
      return 1;
    }
    fs::rename(unfinished, target);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
