#include "reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>

#include "stepcast/text/map.h"

namespace stepcast::config {

Reader::Scope::Scope(Reader& reader, std::string_view key)
    : reader_(reader), length_(reader.path_.size()) {
  if (!reader_.path_.empty()) {
    reader_.path_ += '.';
  }
  reader_.path_ += key;
}

Reader::Scope::~Scope() { reader_.path_.resize(length_); }

void Reader::begin(const std::string& file) { files_.push_back(file); }

namespace {
// More faults of one file help nobody, and a file of 200,000 unknown keys would fill 15 MB.
constexpr std::size_t kMostFaults = 100;
}  // namespace

void Reader::fault(const Origin& where, std::string message) {
  if (full()) {
    ++left_out_;
    return;
  }
  if (std::find(files_.begin(), files_.end(), where.file) == files_.end()) {
    files_.push_back(where.file);
  }
  faults_.push_back({where, std::move(message)});
}

bool Reader::full() const { return faults_.size() >= kMostFaults; }

void Reader::add(const std::vector<Fault>& more) {
  for (const Fault& f : more) {
    fault(f.where, f.message);
  }
}

void Reader::expected(const Value& got, std::string_view what) {
  fault(got.origin, fmt::format("{} is {}; expected {}", path_.empty() ? "the file" : path_,
                                describe(got), what));
}

void Reader::unknown(const Value::Entry& entry, const std::vector<std::string>& known) {
  if (full()) {  // a suggestion takes its time
    ++left_out_;
    return;
  }
  const std::string of = path_.empty() ? subject : "'" + path_ + "'";
  fault(entry.origin, text::Keys{known, "; expected a key of " + of}.unknown(shown(entry.key)));
}

std::string Reader::join(const std::string& key) const {
  if (path_.empty()) {
    return key;
  }
  return key.empty() ? path_ : path_ + "." + key;
}

std::vector<Fault> Reader::faults() const {
  std::vector<Fault> sorted = faults_;
  const auto rank = [&](const Fault& f) {
    const auto at = std::find(files_.begin(), files_.end(), f.where.file) - files_.begin();
    return std::make_tuple(f.where.line == 0, at, f.where.line, f.where.column);
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Fault& a, const Fault& b) { return rank(a) < rank(b); });
  sorted.erase(
      std::unique(sorted.begin(), sorted.end(),
                  [](const Fault& a, const Fault& b) { return to_string(a) == to_string(b); }),
      sorted.end());
  if (left_out_ > 0) {
    sorted.push_back({sorted.back().where,
                      fmt::format("{} more faults are left out; expected fewer", left_out_)});
  }
  return sorted;
}

std::string shown(const std::string& text) {
  constexpr std::size_t kLongestShown = 60;
  std::string out = text.size() > kLongestShown ? text.substr(0, kLongestShown - 3) + "..." : text;
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return out;
}

std::string describe(const Value& value) {
  if (value.kind != Value::Kind::scalar) {
    return std::string(text::kind_in_words(value, "empty"));
  }
  const std::string& s = value.scalar;
  const bool digits =
      s.size() > 1 && std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!value.quoted && digits && s[0] == '0') {
    return fmt::format("'{}', which looks octal", shown(s));
  }
  return fmt::format("{}'{}'", value.quoted ? "the text " : "", shown(s));
}

Value read_part(const std::filesystem::path& file) {
  return file.extension() == ".json" ? text::read_json(file, kBiggestJob)
                                     : text::read_yaml(file, kBiggestJob);
}

}  // namespace stepcast::config
