// JSON whose arrays are as long as an answer: written as it goes, so that it takes no memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common.hpp"

namespace kith::cli {

/// Writes text to stdout, some of it at a time.
class JsonText {
 public:
  void add(std::string_view text) {
    buffer_.append(text);
    if (buffer_.size() >= most) flush();
  }
  void flush() {
    print(std::string_view(buffer_.data(), buffer_.size()));
    buffer_.clear();
  }

 private:
  static constexpr std::size_t most = std::size_t{1} << 16U;
  fmt::memory_buffer buffer_;
};

/// A member of an object and what writes its value.
using JsonMember = std::pair<std::string, std::function<void(JsonText&)>>;

/// print_json() of the object with these members, which it does not have yet.
void print_json(nlohmann::json object, const std::vector<JsonMember>& members);

/// The elements value(i) of an array, each in a line of its own, as print_json() would write them. `indent`:
/// of the line in which the array begins.
template <class Value>
void add_array(JsonText& out, std::int64_t count, int indent, const Value& value) {
  if (count == 0) return out.add("[]");
  out.add("[\n");
  for (std::int64_t i = 0; i < count; ++i) {
    out.add(fmt::format("{:{}}", "", indent + 2));
    if constexpr (std::is_void_v<decltype(value(i))>) {
      value(i);
    } else if constexpr (std::is_same_v<decltype(value(i)), std::int64_t>) {
      out.add(fmt::format_int(value(i)).c_str());
    } else {
      out.add(nlohmann::json(value(i)).dump());  // JSON has no infinity: null
    }
    out.add(i + 1 < count ? ",\n" : "\n");
  }
  out.add(fmt::format("{:{}}]", "", indent));
}

/// An array of a member: its elements.
template <class Value>
JsonMember array_member(std::string name, std::int64_t count, Value value) {
  return {std::move(name), [count, value](JsonText& out) { add_array(out, count, 2, value); }};
}

/// An array of arrays: value(row, column).
template <class Value>
JsonMember matrix_member(std::string name, std::int64_t rows, std::int64_t columns, Value value) {
  return {std::move(name), [rows, columns, value](JsonText& out) {
            add_array(out, rows, 2, [&](std::int64_t row) {
              add_array(out, columns, 4, [&](std::int64_t column) { return value(row, column); });
            });
          }};
}

}  // namespace kith::cli
