// Results as text: one neighbour a line, "query rank index distance".
#include <array>

#include "core/plural.hpp"
#include "io/format.hpp"
#include "io/text.hpp"

namespace kith::io {
namespace {

constexpr std::string_view magic = "# kith neighbors";

struct Header {
  std::int64_t queries = 0;
  std::int64_t k = 0;
  Dtype distances = Dtype::f32;
};

// "# kith neighbors: queries 3, k 2, distances f32", then "# query rank index distance".
Header parse_header(const Source& source, std::string_view& rest) {
  if (!source.starts_with(magic)) {
    throw bad_file(
        source, "{}",
        source.size() == 0 ? "is empty" : "is no table of neighbours: it does not start with that");
  }
  std::string_view line = take_line(rest);
  line.remove_prefix(magic.size());
  Header header;
  bool good = take_token(line, ',') == ":" && take_token(line, ',') == "queries";
  const auto queries = parse_number<std::int64_t>(take_token(line, ','));
  good = good && take_token(line, ',') == "k";
  const auto k = parse_number<std::int64_t>(take_token(line, ','));
  good = good && take_token(line, ',') == "distances";
  const std::string_view type = take_token(line, ',');
  good = good && queries && k && *queries >= 0 && *k >= 1 && (type == "f32" || type == "f64");
  if (!good) {
    throw bad_file(source,
                   "is corrupt: its first line is not '# kith neighbors: queries N, k K, distances f32'");
  }
  header.queries = *queries;
  header.k = *k;
  header.distances = type == "f64" ? Dtype::f64 : Dtype::f32;
  // A line takes at least 8 bytes: "0 0 0 0\n".
  const auto row = total_bytes(static_cast<std::uint64_t>(header.k), 8);
  if (!row || !fits(static_cast<std::uint64_t>(header.queries), *row, rest.size() + 1)) {
    throw bad_file(source,
                   "is truncated or corrupt: its header claims {} x {} neighbours, the file has {} for them",
                   header.queries, header.k, plural(static_cast<std::int64_t>(rest.size()), "byte"));
  }
  return header;
}

template <class R>
void read_lines(const Source& source, std::string_view rest, Neighbors& result, std::vector<R>& distances) {
  std::size_t at = 0;
  FrontToBack pass(source);
  while (!rest.empty()) {
    pass.reached(rest.data());
    std::string_view line = take_line(rest);
    std::string_view first = take_token(line);
    if (first.empty() || first.front() == '#') continue;
    const auto query = parse_number<std::int64_t>(first);
    const auto rank = parse_number<std::int64_t>(take_token(line));
    const auto index = parse_number<std::int64_t>(take_token(line));
    const auto distance = parse_number<R>(take_token(line));
    const auto expected = static_cast<std::int64_t>(at);
    if (at == result.indices.size() || !query || !rank || !index || !distance ||
        *query != expected / result.k || *rank != expected % result.k || !take_token(line).empty()) {
      throw bad_file(source,
                     "is corrupt: neighbour line {} is not the 'query rank index distance' expected next",
                     at + 1);
    }
    result.indices[at] = *index;
    distances[at++] = *distance;
  }
  if (at != result.indices.size()) {
    throw bad_file(source, "is truncated: its header claims {}, the file ends after {}",
                   plural(static_cast<std::int64_t>(result.indices.size()), "neighbour"), at);
  }
}

}  // namespace

bool is_table(const Source& source) {
  return source.starts_with(magic);
}

FileInfo inspect_table(const Source& source) {
  std::string_view rest = source.text();
  const Header header = parse_header(source, rest);
  FileInfo info;
  info.element_type = "i64";
  info.rows = header.queries;
  info.dim = header.k;
  info.details.emplace_back("distances", name(header.distances));
  return info;
}

Neighbors read_neighbors_table(const Source& source) {
  std::string_view rest = source.text();
  const Header header = parse_header(source, rest);
  Neighbors result = empty_neighbors(header.queries, header.k);
  if (header.distances == Dtype::f64) {
    std::vector<double> distances(result.indices.size());
    read_lines(source, rest, result, distances);
    result.distances = std::move(distances);
  } else {
    read_lines(source, rest, result, std::get<std::vector<float>>(result.distances));
  }
  return result;
}

void write_neighbors_table(AtomicFile& out, const Neighbors& neighbors) {
  out.write(fmt::format("{}: queries {}, k {}, distances {}\n# query rank index distance\n", magic,
                        neighbors.queries, neighbors.k, name(neighbors.distance_dtype())));
  std::visit(
      [&](const auto& distances) {
        std::array<char, 128> line{};
        for (std::size_t i = 0; i < neighbors.indices.size(); ++i) {
          const auto at = static_cast<std::int64_t>(i);
          // {} is the shortest text that reads back to the same bits.
          const auto end = fmt::format_to_n(line.data(), line.size(), "{} {} {} {}\n", at / neighbors.k,
                                            at % neighbors.k, neighbors.indices[i], distances[i]);
          out.write(line.data(), end.size);
        }
      },
      neighbors.distances);
}

}  // namespace kith::io
