#include "json_arrays.hpp"

#include <algorithm>

namespace kith::cli {

void print_json(nlohmann::json object, const std::vector<JsonMember>& members) {
  // The rest of the object is small: it is written with a word in the place of each of them.
  for (const auto& [name, write] : members) object[name] = "@" + name + "@";
  const std::string text = object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  std::vector<std::pair<std::size_t, const JsonMember*>> positions;
  for (const JsonMember& member : members) {
    positions.emplace_back(text.find(fmt::format("\n  \"{}\": \"@{}@\"", member.first, member.first)),
                           &member);
  }
  std::sort(positions.begin(), positions.end());
  JsonText out;
  std::size_t at = 0;
  for (const auto& [position, member] : positions) {
    const std::size_t value =
        position + member->first.size() + 7;  // behind the line's end, two blanks, "name":
    out.add(std::string_view(text).substr(at, value - at));
    member->second(out);
    at = value + member->first.size() + 4;
  }
  out.add(std::string_view(text).substr(at));
  out.flush();
}

}  // namespace kith::cli
