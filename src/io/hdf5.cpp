// HDF5 files as ann-benchmarks lays them out (Aumueller, Bernhardsson, Faithfull 2020): two-dimensional
// datasets train, test, neighbors and distances, and the attribute "distance" on the root.
//
// The HDF5 library crashes or never returns on some damaged files, so it reads in a child process
// (guarded.hpp), which sends what it finds; rows that lie in one run of bytes are then memory-mapped by this
// process.
#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "io/format.hpp"
#include "io/guarded.hpp"
#include "io/hdf5_members.hpp"

namespace kith::io {
namespace {

// What the child found out about a dataset before it sends rows.
struct Plan {
  Dtype dtype = Dtype::f32;
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t dim = 0;
  std::uint64_t offset = 0;  // of the whole dataset, where it can be mapped
  bool mapped = false;
};

// What the child found out about results; 0, 4 or 8 bytes a distance.
struct ResultPlan {
  std::int64_t queries = 0;
  std::int64_t k = 0;
  std::size_t distance_bytes = 0;
};

// The parent cannot know the frames' size from the shape alone, so each block is preceded by its rows.
void send_rows(FrameSink& sink, const Source& source, const Member& member, hid_t type, RowRange range,
               std::size_t element) {
  const auto row_bytes = static_cast<std::int64_t>(member.dim * element);
  const std::int64_t block = rows_per_frame(member, row_bytes);
  std::vector<std::byte> buffer;
  FrameSink::allow_time_for(static_cast<std::uint64_t>(range.count * row_bytes));
  for (std::int64_t done = 0; done < range.count;) {
    const std::int64_t count = std::min(block, range.count - done);
    buffer.resize(static_cast<std::size_t>(count * row_bytes));
    read_rows(source, member, type, {range.first + done, count}, buffer.data());
    sink.send(count);
    sink.send(buffer.data(), buffer.size());
    done += count;
  }
}

void receive_rows(Guarded& child, const Source& source, void* to, std::int64_t rows, std::size_t row_bytes) {
  auto* at = static_cast<std::byte*>(to);
  while (rows > 0) {
    const auto count = child.receive<std::int64_t>();
    if (count < 1 || count > rows) throw bad_file(source, "is corrupt: HDF5 returned too many rows");
    child.receive(at, static_cast<std::size_t>(count) * row_bytes);
    at += static_cast<std::size_t>(count) * row_bytes;
    rows -= count;
  }
}

void plan_and_send(FrameSink& sink, const Source& source, const ReadOptions& options) {
  const Session session;
  const Handle file = open_file(source);
  const Member member = require_member(source, file, options.member.empty() ? "train" : options.member);
  std::optional<Dtype> dtype;
  for (const Dtype one : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::i8, Dtype::u8, Dtype::f64}) {
    if (member.element == kith::name(one)) dtype = one;
  }
  if (!dtype) {
    throw bad_file(
        source,
        "has elements of type {} in member '{}'; Kith reads f16, bf16, f32, f64, i8 and u8; convert with "
        "x.astype('float32')",
        member.element, member.name);
  }
  check_storage(source, member, size_of(*dtype));
  const RowRange range = wanted_rows(source, options, static_cast<std::int64_t>(member.rows));
  Plan plan{*dtype, range.first, range.count, static_cast<std::int64_t>(member.dim), 0, false};
  const Handle type = memory_type(*dtype);
  const Handle stored(H5Dget_type(member.dataset), H5Tclose);
  const Handle plist(H5Dget_create_plist(member.dataset), H5Pclose);
  const haddr_t offset = H5Dget_offset(member.dataset);
  if (offset != HADDR_UNDEF && plist.good() && H5Pget_layout(plist) == H5D_CONTIGUOUS &&
      H5Tequal(stored, type) > 0 && offset <= source.size() &&
      fits(member.rows, member.dim * size_of(*dtype), source.size() - offset)) {
    plan.offset = offset;
    plan.mapped = true;
  }
  sink.send(plan);
  if (!plan.mapped) send_rows(sink, source, member, type, range, size_of(*dtype));
}

void send_results(FrameSink& sink, const Source& source) {
  const Session session;
  const Handle file = open_file(source);
  const Member indices = require_member(source, file, "neighbors");
  if (!indices.integer || indices.element == "other") {
    throw bad_file(source,
                   "has elements of type {} in member 'neighbors'; indices are integers of 1 to 8 bytes",
                   indices.element);
  }
  check_storage(source, indices, 1);
  ResultPlan plan{static_cast<std::int64_t>(indices.rows), static_cast<std::int64_t>(indices.dim), 0};
  const auto distances = open_member(source, file, "distances");
  if (distances) {
    if (distances->element != "f32" && distances->element != "f64") {
      throw bad_file(source, "has elements of type {} in member 'distances'; distances are f32 or f64",
                     distances->element);
    }
    if (distances->rows != indices.rows || distances->dim != indices.dim) {
      throw bad_file(source, "is corrupt: {} x {} distances do not go with {} x {} neighbors",
                     distances->rows, distances->dim, indices.rows, indices.dim);
    }
    check_storage(source, *distances, 1);
    plan.distance_bytes = distances->element == "f64" ? 8 : 4;
  }
  sink.send(plan);
  const RowRange all{0, plan.queries};
  send_rows(sink, source, indices, H5T_NATIVE_INT64, all, sizeof(std::int64_t));
  if (distances) {
    send_rows(sink, source, *distances, plan.distance_bytes == 8 ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT, all,
              plan.distance_bytes);
  }
}

// Strings end with a NUL each: element type, then key and value of every detail.
void send_info(FrameSink& sink, const Source& source) {
  const Session session;
  const Handle file = open_file(source);
  const auto names = member_names(file);
  std::array<std::int64_t, 2> shape{};
  std::string text;
  std::string details;
  const auto add = [&details](const std::string& key, const std::string& value) {
    details.append(key).append(1, '\0').append(value).append(1, '\0');
  };
  // rows and dim are those of what read_dataset reads, or else of the results.
  const auto tell = [&](const std::string& name) {
    const auto member = open_member(source, file, name);
    if (!member) return;
    if (text.empty()) {
      shape = {static_cast<std::int64_t>(member->rows), static_cast<std::int64_t>(member->dim)};
      text = member->element;
    }
    add(name, fmt::format("{} x {} {}", member->rows, member->dim, member->element));
  };
  constexpr std::array<std::string_view, 4> known = {"train", "neighbors", "test", "distances"};
  for (const std::string_view name : known) tell(std::string(name));
  // Others that rows could be read from, by their names.
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    try {
      tell(name);
    } catch (const IoError&) {
      continue;  // a group, or something of another shape
    }
  }
  if (text.empty()) {
    throw bad_file(source, "has no dataset of two dimensions on its first level; it has {}", listed(names));
  }
  const std::string distance = distance_attribute(file);
  if (!distance.empty()) add("distance", distance);
  add("members", listed(names));
  text.append(1, '\0').append(details);
  sink.send(shape);
  sink.send(static_cast<std::uint64_t>(text.size()));
  sink.send(text.data(), text.size());
}

}  // namespace

bool is_hdf5(const Source& source) {
  return source.starts_with("\x89HDF\r\n\x1a\n");
}

FileInfo inspect_hdf5(const Source& source) {
  Guarded child(source, [&](FrameSink& sink) { send_info(sink, source); });
  const auto shape = child.receive<std::array<std::int64_t, 2>>();
  const auto bytes = child.receive<std::uint64_t>();
  if (bytes > source.size() + 4096) throw bad_file(source, "is corrupt: its names are longer than the file");
  std::string text(bytes, '\0');
  child.receive(text.data(), text.size());
  std::vector<std::string> parts;
  for (std::size_t at = 0, end = 0; (end = text.find('\0', at)) != std::string::npos; at = end + 1) {
    parts.push_back(text.substr(at, end - at));
  }
  FileInfo info;
  info.rows = shape[0];
  info.dim = shape[1];
  if (!parts.empty()) info.element_type = parts[0];
  for (std::size_t i = 1; i + 1 < parts.size(); i += 2) info.details.emplace_back(parts[i], parts[i + 1]);
  return info;
}

Dataset read_hdf5(const Source& source, const ReadOptions& options) {
  Guarded child(source, [&](FrameSink& sink) { plan_and_send(sink, source, options); });
  const auto plan = child.receive<Plan>();
  // A library that ran over its own memory may have sent anything.
  const auto width = static_cast<std::uint64_t>(plan.dim) * size_of(plan.dtype);
  const std::uint64_t limit =
      plan.mapped ? source.size() - std::min(plan.offset, source.size()) : source.size() * largest_ratio;
  if (plan.dtype > Dtype::f64 || plan.first < 0 || plan.count < 0 || plan.dim < 1 ||
      !fits(static_cast<std::uint64_t>(plan.first) + static_cast<std::uint64_t>(plan.count), width, limit)) {
    throw bad_file(source, "is corrupt: HDF5 reports {} rows of dimension {}", plan.count, plan.dim);
  }
  if (plan.mapped) {
    return view_rows(source, plan.offset, plan.dtype, {plan.first, plan.count}, plan.dim, plan.dim);
  }
  Dataset result = Dataset::allocate(plan.dtype, plan.count, plan.dim);
  receive_rows(child, source, result.mutable_data(), plan.count,
               static_cast<std::size_t>(plan.dim) * size_of(plan.dtype));
  return result;
}

Neighbors read_neighbors_hdf5(const Source& source) {
  Guarded child(source, [&](FrameSink& sink) { send_results(sink, source); });
  const auto plan = child.receive<ResultPlan>();
  if (plan.queries < 0 || plan.k < 1 ||
      !fits(static_cast<std::uint64_t>(plan.queries), static_cast<std::uint64_t>(plan.k),
            source.size() * largest_ratio)) {
    throw bad_file(source, "is corrupt: HDF5 reports {} results of {} neighbours", plan.queries, plan.k);
  }
  Neighbors result = empty_neighbors(plan.queries, plan.k);
  const auto k = static_cast<std::size_t>(plan.k);
  receive_rows(child, source, result.indices.data(), plan.queries, k * sizeof(std::int64_t));
  if (plan.distance_bytes == 8) {
    std::vector<double> values(result.indices.size());
    receive_rows(child, source, values.data(), plan.queries, k * sizeof(double));
    result.distances = std::move(values);
  } else if (plan.distance_bytes == 4) {
    auto& values = std::get<std::vector<float>>(result.distances);
    receive_rows(child, source, values.data(), plan.queries, k * sizeof(float));
  }
  return result;
}

}  // namespace kith::io
