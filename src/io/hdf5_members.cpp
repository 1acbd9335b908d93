// Members of an HDF5 file: found, checked, read.
#include "io/hdf5_members.hpp"

#include <algorithm>
#include <array>

#include "core/plural.hpp"
#include "io/stream_file.hpp"

namespace kith::io {
namespace {

constexpr std::int64_t block_bytes = 8 << 20;

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

}  // namespace

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
                   listed(member_names(file)));
  }
  return std::move(*member);
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

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

}  // namespace kith::io
