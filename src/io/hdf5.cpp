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

#include "core/plural.hpp"
#include "io/format.hpp"
#include "io/guarded.hpp"
#include "io/hdf5_library.hpp"
#include "io/stream_file.hpp"

namespace kith::io {
namespace {

Handle open_file(const Source& source) {
  if (!is_hdf5(source)) {
    throw bad_file(source, "{}",
                   source.size() == 0 ? "is empty" : "is not HDF5: it does not start with \\x89HDF");
  }
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
#if H5_VERSION_GE(1, 10, 7)
  H5Pset_file_locking(access, false, true);  // read-only places cannot be locked
#endif
  std::string path = source.path.string();
  // HDF5 wants the real path of what it opens, which no file in memory has.
  if (source.path.empty() || shown_name(source.path) != path) {
    path = "bytes";
    H5Pset_fapl_core(access, 1U << 16U, false);
    H5Pset_file_image(access, const_cast<std::byte*>(source.bytes.data()), source.bytes.size());
  }
  Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access), H5Fclose);
  if (!file.good()) throw bad_file(source, "is truncated or corrupt: HDF5 cannot open it ({})", reason());
  return file;
}

struct Member {
  std::string name;
  Handle dataset;
  std::uint64_t rows = 0;
  std::uint64_t dim = 0;
  std::string element;  // "f32", "i32", ..., "other"
  bool integer = false;
};

std::string element_name(hid_t type) {
  const std::size_t bytes = H5Tget_size(type);
  if (H5Tget_class(type) == H5T_INTEGER && (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8)) {
    return fmt::format("{}{}", H5Tget_sign(type) == H5T_SGN_NONE ? 'u' : 'i', 8 * bytes);
  }
  if (H5Tget_class(type) == H5T_FLOAT) {
    if (bytes == 4 || bytes == 8) return fmt::format("f{}", 8 * bytes);
    std::size_t sign = 0;
    std::size_t exponent = 0;
    std::size_t exponent_bits = 0;
    std::size_t mantissa = 0;
    std::size_t mantissa_bits = 0;
    if (bytes == 2 && H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) >= 0) {
      if (exponent_bits == 5 && mantissa_bits == 10) return "f16";
      if (exponent_bits == 8 && mantissa_bits == 7) return "bf16";
    }
  }
  return "other";
}

std::optional<Member> open_member(const Source& source, hid_t file, const std::string& name) {
  // A name may be a path with groups; a step that is missing is an error to H5Lexists and means "not there".
  if (H5Lexists(file, name.c_str(), H5P_DEFAULT) <= 0) return std::nullopt;
  Handle dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose);
  if (!dataset.good()) throw bad_file(source, "has a member '{}' that is no dataset ({})", name, reason());
  const Handle space(H5Dget_space(dataset), H5Sclose);
  const Handle type(H5Dget_type(dataset), H5Tclose);
  const int dimensions = space.good() ? H5Sget_simple_extent_ndims(space) : -1;
  if (dimensions != 2 || !type.good()) {
    throw bad_file(source, "has a member '{}' of {}; rows of vectors have 2", name,
                   plural(dimensions, "dimension"));
  }
  std::array<hsize_t, 2> shape{};
  H5Sget_simple_extent_dims(space, shape.data(), nullptr);
  Member member{name,     std::move(dataset), shape[0],
                shape[1], element_name(type), H5Tget_class(type) == H5T_INTEGER};
  check_shape(source, member.rows, member.dim);
  return member;
}

// Claimed sizes are believed only up to what the stored bytes can hold: deflate, the strongest filter in use,
// packs at most 1032:1.
constexpr std::uint64_t largest_ratio = 1100;

void check_storage(const Source& source, const Member& member, std::uint64_t element) {
  const Handle type(H5Dget_type(member.dataset), H5Tclose);
  const std::uint64_t stored = H5Dget_storage_size(member.dataset);
  const Handle plist(H5Dget_create_plist(member.dataset), H5Pclose);
  const int filters = plist.good() ? H5Pget_nfilters(plist) : 0;
  const auto row = total_bytes(member.dim, std::max<std::uint64_t>(element, H5Tget_size(type)));
  const std::uint64_t limit =
      filters > 0 ? std::min(stored, source.size()) * largest_ratio : std::min(stored, source.size()) * 8;
  if (plist.good() && H5Pget_external_count(plist) > 0) {
    throw bad_file(source,
                   "keeps member '{}' in other files, which Kith does not read; copy it with h5repack",
                   member.name);
  }
  if (!row || !fits(member.rows, *row, limit)) {
    throw bad_file(source,
                   "is truncated or corrupt: member '{}' claims {} rows of dimension {}, {} bytes are stored",
                   member.name, member.rows, member.dim, stored);
  }
}

// Reads rows of `member` as elements of `type` into `to`.
void read_rows(const Source& source, const Member& member, hid_t type, RowRange range, void* to) {
  if (range.count == 0) return;
  const std::array<hsize_t, 2> start = {static_cast<hsize_t>(range.first), 0};
  const std::array<hsize_t, 2> count = {static_cast<hsize_t>(range.count), member.dim};
  const Handle space(H5Dget_space(member.dataset), H5Sclose);
  const Handle memory(H5Screate_simple(2, count.data(), nullptr), H5Sclose);
  if (!space.good() || !memory.good() ||
      H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) < 0 ||
      H5Dread(member.dataset, type, memory, space, H5P_DEFAULT, to) < 0) {
    throw bad_file(source, "is truncated or corrupt: HDF5 cannot read member '{}' ({})", member.name,
                   reason());
  }
}

std::vector<std::string> member_names(hid_t file) {
  std::vector<std::string> names;
  H5Literate(
      file, H5_INDEX_NAME, H5_ITER_INC, nullptr,
      [](hid_t, const char* name, const H5L_info_t*, void* to) -> herr_t {
        static_cast<std::vector<std::string>*>(to)->emplace_back(name);
        return 0;
      },
      &names);
  return names;
}

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

// The root attribute "distance" ("euclidean", "angular", ...), empty where there is none.
std::string distance_attribute(hid_t file) {
  if (H5Aexists(file, "distance") <= 0) return {};
  const Handle attribute(H5Aopen(file, "distance", H5P_DEFAULT), H5Aclose);
  if (!attribute.good()) return {};
  const Handle type(H5Aget_type(attribute), H5Tclose);
  const Handle space(H5Aget_space(attribute), H5Sclose);
  if (!type.good() || H5Tget_class(type) != H5T_STRING || H5Sget_simple_extent_npoints(space) != 1) return {};
  if (H5Tis_variable_str(type) > 0) {
    char* text = nullptr;
    const Handle memory(H5Tcopy(H5T_C_S1), H5Tclose);
    H5Tset_size(memory, H5T_VARIABLE);
    H5Tset_cset(memory, H5Tget_cset(type));
    if (H5Aread(attribute, memory, static_cast<void*>(&text)) < 0 || text == nullptr) return {};
    std::string value(text);
    H5free_memory(text);
    return value;
  }
  const std::size_t bytes = H5Tget_size(type);
  if (bytes == 0 || bytes > 1024) return {};
  std::string value(bytes, '\0');
  if (H5Aread(attribute, type, value.data()) < 0) return {};
  value.resize(std::min(value.find('\0'), value.size()));
  return value;
}

Member require_member(const Source& source, hid_t file, const std::string& name) {
  auto member = open_member(source, file, name);
  if (!member) {
    throw bad_file(source, "has no member '{}'; it has {}: name the one to read", name,
                   list(member_names(file)));
  }
  return std::move(*member);
}

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

constexpr std::int64_t block_bytes = 8 << 20;

// Rows a frame: about 8 MiB, whole chunks where there are any, so that none is unpacked twice.
std::int64_t rows_per_frame(const Member& member, std::int64_t row_bytes) {
  std::int64_t rows = std::max<std::int64_t>(1, block_bytes / row_bytes);
  const Handle plist(H5Dget_create_plist(member.dataset), H5Pclose);
  std::array<hsize_t, 2> chunk{};
  if (plist.good() && H5Pget_layout(plist) == H5D_CHUNKED && H5Pget_chunk(plist, 2, chunk.data()) == 2 &&
      chunk[0] > 0 && chunk[0] <= member.rows) {
    const auto height = static_cast<std::int64_t>(chunk[0]);
    rows = (rows + height - 1) / height * height;
  }
  return rows;
}

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
    throw bad_file(source, "has no dataset of two dimensions on its first level; it has {}", list(names));
  }
  const std::string distance = distance_attribute(file);
  if (!distance.empty()) add("distance", distance);
  add("members", list(names));
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
