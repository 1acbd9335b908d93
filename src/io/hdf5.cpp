// HDF5 files as ann-benchmarks lays them out (Aumueller, Bernhardsson, Faithfull 2020): two-dimensional
// datasets train, test, neighbors and distances, and the attribute "distance" on the root.
#include <array>
#include <limits>
#include <mutex>
#include <vector>

#include <hdf5.h>

#include "io/format.hpp"

namespace kith::io {
namespace {

// One HDF5 identifier, closed with the scope.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  operator hid_t() const noexcept { return id_; }  // NOLINT(google-explicit-constructor)
  bool good() const noexcept { return id_ >= 0; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

// The library keeps global state and prints errors: one caller at a time, printing off while in here.
class Session {
 public:
  Session() : lock_(mutex()) {
    H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    H5Eclear2(H5E_DEFAULT);
    H5Eset_auto2(H5E_DEFAULT, function_, data_);
  }

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  std::scoped_lock<std::mutex> lock_;
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

// The innermost reason the library gives for its last failure.
std::string reason() {
  std::string text = "no reason given";
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned depth, const H5E_error2_t* error, void* to) -> herr_t {
        if (depth == 0 && error->desc != nullptr) *static_cast<std::string*>(to) = error->desc;
        return 0;
      },
      &text);
  return text;
}

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
  if (source.path.empty()) {
    path = "bytes";
    H5Pset_fapl_core(access, 1U << 16U, false);
    H5Pset_file_image(access, const_cast<std::byte*>(source.bytes.data()), source.bytes.size());
  }
  Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access), H5Fclose);
  if (!file.good()) throw bad_file(source, "is truncated or corrupt: HDF5 cannot open it ({})", reason());
  return file;
}

// binary16 or bfloat16 as a memory type: sign bit 15, then the exponent, then the mantissa.
Handle half_type(std::size_t exponent_bits, std::size_t bias) {
  Handle type(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
  const std::size_t mantissa = 15 - exponent_bits;
  H5Tset_fields(type, 15, mantissa, exponent_bits, 0, mantissa);
  H5Tset_size(type, 2);
  H5Tset_ebias(type, bias);
  return type;
}

Handle memory_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return {H5Tcopy(H5T_IEEE_F32LE), H5Tclose};
    case Dtype::f64: return {H5Tcopy(H5T_IEEE_F64LE), H5Tclose};
    case Dtype::i8: return {H5Tcopy(H5T_STD_I8LE), H5Tclose};
    case Dtype::u8: return {H5Tcopy(H5T_STD_U8LE), H5Tclose};
    case Dtype::f16: return half_type(5, 15);
    case Dtype::bf16: return half_type(8, 127);
  }
  throw InvalidArgument("element type out of range");
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
    throw bad_file(source, "has a member '{}' of {} dimensions; rows of vectors have 2", name, dimensions);
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
void check_storage(const Source& source, const Member& member, std::uint64_t element) {
  constexpr std::uint64_t largest_ratio = 1100;
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
    if (H5Aread(attribute, memory, &text) < 0 || text == nullptr) return {};
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
    throw bad_file(source, "has no member '{}'; it has {}", name, list(member_names(file)));
  }
  return std::move(*member);
}

void write_member(hid_t file, const char* name, hid_t type, std::int64_t rows, std::int64_t columns,
                  const void* data, const std::string& target) {
  const std::array<hsize_t, 2> shape = {static_cast<hsize_t>(rows), static_cast<hsize_t>(columns)};
  const Handle space(H5Screate_simple(2, shape.data(), nullptr), H5Sclose);
  const Handle dataset(H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Dclose);
  if (!dataset.good() || (rows > 0 && H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0)) {
    throw IoError(fmt::format("cannot write '{}': {}", target, reason()));
  }
}

// HDF5 writes by name, into the temporary file, and reports what it buffered only when it closes.
template <class Fill>
void write_file(AtomicFile& out, Fill&& fill) {
  const Session session;
  const std::string target = out.temporary().string();
  if (target.empty()) {
    throw IoError("HDF5 can only be written to a regular file, not to a device or pipe; name a file");
  }
  const hid_t file = H5Fcreate(target.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  if (file < 0) throw IoError(fmt::format("cannot write '{}': {}", target, reason()));
  try {
    fill(file, target);
  } catch (...) {
    H5Fclose(file);
    throw;
  }
  if (H5Fclose(file) < 0) throw IoError(fmt::format("cannot write '{}': {}", target, reason()));
}

}  // namespace

bool is_hdf5(const Source& source) {
  return source.starts_with("\x89HDF\r\n\x1a\n");
}

FileInfo inspect_hdf5(const Source& source) {
  const Session session;
  const Handle file = open_file(source);
  FileInfo info;
  const auto names = member_names(file);
  // rows and dim are those of what read_dataset reads, or else of the results.
  for (const char* wanted : {"train", "neighbors"}) {
    if (info.dim > 0) break;
    if (const auto member = open_member(source, file, wanted)) {
      info.element_type = member->element;
      info.rows = static_cast<std::int64_t>(member->rows);
      info.dim = static_cast<std::int64_t>(member->dim);
    }
  }
  if (info.dim == 0) {
    throw bad_file(source, "has no member 'train' or 'neighbors'; it has {}", list(names));
  }
  for (const char* name : {"train", "test", "neighbors", "distances"}) {
    if (const auto member = open_member(source, file, name)) {
      info.details.emplace_back(name, fmt::format("{} x {} {}", member->rows, member->dim, member->element));
    }
  }
  const std::string distance = distance_attribute(file);
  if (!distance.empty()) info.details.emplace_back("distance", distance);
  info.details.emplace_back("members", list(names));
  return info;
}

Dataset read_hdf5(const Source& source, const ReadOptions& options) {
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
  const auto dim = static_cast<std::int64_t>(member.dim);
  const RowRange range = wanted_rows(source, options, static_cast<std::int64_t>(member.rows));
  const Handle type = memory_type(*dtype);
  const Handle stored(H5Dget_type(member.dataset), H5Tclose);
  // One run of bytes in the wanted type is mapped like any raw file.
  const haddr_t offset = H5Dget_offset(member.dataset);
  const Handle plist(H5Dget_create_plist(member.dataset), H5Pclose);
  const auto bytes = static_cast<std::uint64_t>(member.rows) * member.dim * size_of(*dtype);
  if (offset != HADDR_UNDEF && plist.good() && H5Pget_layout(plist) == H5D_CONTIGUOUS &&
      H5Tequal(stored, type) > 0 && offset <= source.size() && bytes <= source.size() - offset) {
    return view_rows(source, offset, *dtype, range, dim, dim);
  }
  Dataset result = Dataset::allocate(*dtype, range.count, dim);
  read_rows(source, member, type, range, result.mutable_data());
  return result;
}

void write_hdf5(AtomicFile& out, const DatasetView& data) {
  write_file(out, [&](hid_t file, const std::string& target) {
    const Dataset packed = data.contiguous() ? Dataset() : Dataset::copy(data);
    const void* rows = data.contiguous() ? data.data : packed.view().data;
    write_member(file, "train", memory_type(data.dtype), data.rows, data.dim, rows, target);
  });
}

Neighbors read_neighbors_hdf5(const Source& source) {
  const Session session;
  const Handle file = open_file(source);
  const Member indices = require_member(source, file, "neighbors");
  if (!indices.integer || indices.element == "other") {
    throw bad_file(source,
                   "has elements of type {} in member 'neighbors'; indices are integers of 1 to 8 bytes",
                   indices.element);
  }
  check_storage(source, indices, 1);
  const RowRange all{0, static_cast<std::int64_t>(indices.rows)};
  Neighbors result = empty_neighbors(all.count, static_cast<std::int64_t>(indices.dim));
  read_rows(source, indices, H5T_NATIVE_INT64, all, result.indices.data());
  const auto distances = open_member(source, file, "distances");
  if (!distances) return result;
  if (distances->element != "f32" && distances->element != "f64") {
    throw bad_file(source, "has elements of type {} in member 'distances'; distances are f32 or f64",
                   distances->element);
  }
  if (distances->rows != indices.rows || distances->dim != indices.dim) {
    throw bad_file(source, "is corrupt: {} x {} distances do not go with {} x {} neighbors", distances->rows,
                   distances->dim, indices.rows, indices.dim);
  }
  check_storage(source, *distances, 1);
  if (distances->element == "f64") {
    std::vector<double> values(result.indices.size());
    read_rows(source, *distances, H5T_NATIVE_DOUBLE, all, values.data());
    result.distances = std::move(values);
  } else {
    read_rows(source, *distances, H5T_NATIVE_FLOAT, all,
              std::get<std::vector<float>>(result.distances).data());
  }
  return result;
}

void write_neighbors_hdf5(AtomicFile& out, const Neighbors& neighbors) {
  write_file(out, [&](hid_t file, const std::string& target) {
    write_member(file, "neighbors", H5T_STD_I64LE, neighbors.queries, neighbors.k, neighbors.indices.data(),
                 target);
    std::visit(
        [&](const auto& held) {
          const bool doubles = neighbors.distance_dtype() == Dtype::f64;
          write_member(file, "distances", doubles ? H5T_IEEE_F64LE : H5T_IEEE_F32LE, neighbors.queries,
                       neighbors.k, held.data(), target);
        },
        neighbors.distances);
  });
}

}  // namespace kith::io
