// Tiny valid files of every format: starting points of the fuzzers and of the damage tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/index_file.hpp"
#include "kith/io.hpp"

namespace kith::fuzz {

/// One valid file: its name (for the corpus) and its bytes.
struct Seed {
  std::string name;
  std::string bytes;
};

inline std::string slurp(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Little-endian bytes of a number.
template <class T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// A LAS header by hand, for the versions that Kith does not write.
inline std::string las_header(unsigned minor, unsigned point_format, unsigned record_bytes,
                              std::uint64_t points) {
  const std::size_t bytes = minor == 4 ? 375 : 227;
  std::string header(bytes, '\0');
  const auto put = [&header](std::size_t at, const std::string& text) {
    header.replace(at, text.size(), text);
  };
  put(0, "LASF");
  put(24, {1, static_cast<char>(minor)});
  put(94, raw(static_cast<std::uint16_t>(bytes)));
  put(96, raw(static_cast<std::uint32_t>(bytes)));
  header[104] = static_cast<char>(point_format);
  put(105, raw(static_cast<std::uint16_t>(record_bytes)));
  if (minor < 4) put(107, raw(static_cast<std::uint32_t>(points)));
  for (std::size_t axis = 0; axis < 3; ++axis) {
    put(131 + 8 * axis, raw(0.5));
    put(155 + 8 * axis, raw(100.0 * static_cast<double>(axis)));
  }
  if (minor == 4) put(247, raw(points));
  return header;
}

/// LAS with an attribute of two extra bytes, which a record describes.
inline std::string las_with_extra_bytes() {
  std::string header = las_header(2, 0, 22, 2);
  std::string record(54 + 192, '\0');
  record.replace(2, 9, "LASF_Spec");
  record.replace(18, 4, raw(std::uint16_t{4}) + raw(std::uint16_t{192}));
  record[54 + 2] = 3;  // uint16
  record.replace(54 + 4, 5, "added");
  header += record;
  header.replace(96, 8, raw(static_cast<std::uint32_t>(header.size())) + raw(std::uint32_t{1}));
  return header + std::string(44, '\3');
}

/// PCD with LZF data: 4 points of x y z, every value 0, as literals and back references.
inline std::string compressed_pcd() {
  std::string packed = {0, 0};                 // one literal zero
  packed += std::string({char(0xE0), 38, 0});  // repeat 47 bytes from 1 back: 48 in all
  return "# .PCD v0.7\nVERSION 0.7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nWIDTH 4\nHEIGHT 1\n"
         "VIEWPOINT 0 0 0 1 0 0 0\nPOINTS 4\nDATA binary_compressed\n" +
         raw(static_cast<std::uint32_t>(packed.size())) + raw(std::uint32_t{48}) + packed;
}

/// Written through Kith's own writers into `folder`, plus hand-made ones; by format name.
inline std::map<std::string, std::vector<Seed>> make_seeds(const std::filesystem::path& folder) {
  std::map<std::string, std::vector<Seed>> seeds;
  const std::vector<float> floats = {1, -2, 3.5F, 0.25F, 1e6F, -1e-3F};
  const std::vector<double> doubles = {513149.97, 5404078.5, 343.1, 0, -1, 2};
  const std::vector<std::uint8_t> bytes = {0, 1, 127, 128, 254, 255};
  const std::vector<std::int8_t> signed_bytes = {0, 1, 127, -128, -1, 5};
  const auto add = [&](const std::string& format, const std::string& file, const DatasetView& data) {
    write_dataset(folder / file, data);
    seeds[format].push_back({file, slurp(folder / file)});
  };
  const DatasetView f(floats.data(), 2, 3);
  const DatasetView d(doubles.data(), 2, 3);
  const DatasetView u(bytes.data(), 2, 3);
  const DatasetView i(signed_bytes.data(), 2, 3);
  add("fvecs", "a.fvecs", f);
  add("bvecs", "a.bvecs", u);
  add("fbin", "a.fbin", f);
  add("u8bin", "a.u8bin", u);
  add("i8bin", "a.i8bin", i);
  add("npy", "f.npy", f);
  add("npy", "d.npy", d);
  add("npy", "u.npy", u);
  add("hdf5", "f.h5", f);
  add("pcd", "f.pcd", f);
  add("pcd", "d.pcd", d);
  add("ply", "f.ply", f);
  add("las", "d.las", d);
  add("xyz", "d.xyz", d);
  seeds["fbin"].push_back(
      {"wide.fbin", raw(std::uint64_t{1}) + raw(std::uint64_t{2}) + raw(1.0F) + raw(2.0F)});
  seeds["pcd"].push_back({"compressed.pcd", compressed_pcd()});
  seeds["pcd"].push_back(
      {"ascii.pcd",
       "VERSION .7\nFIELDS rgb z y x\nSIZE 4 4 8 4\nTYPE U F F F\nCOUNT 1 1 1 1\nPOINTS 2\n"
       "DATA ascii\n9 3 2 1\n9 nan 5 4\n"});
  seeds["ply"].push_back(
      {"ascii.ply",
       "ply\nformat ascii 1.0\nelement face 1\nproperty list uchar int v\nelement vertex 2\n"
       "property uchar red\nproperty float x\nproperty float y\nproperty float z\nend_header\n"
       "3 0 1 2\n7 1 2 3\n7 4 5 6\n"});
  seeds["ply"].push_back(
      {"big.ply",
       std::string("ply\nformat binary_big_endian 1.0\nelement face 1\nproperty list uchar short v\n"
                   "element vertex 1\nproperty list uchar char w\nproperty short x\nproperty short y\n"
                   "property double z\nend_header\n") +
           std::string("\x01\x00\x05\x02\x07\x07\x00\x03\xff\xfe\x3f\xf0\x00\x00\x00\x00\x00\x00", 18)});
  seeds["las"].push_back({"1.4.las", las_header(4, 6, 30, 1) + std::string(30, '\1')});
  seeds["las"].push_back({"1.3.las", las_header(3, 3, 36, 2) + std::string(72, '\2')});
  seeds["las"].push_back({"extra.las", las_with_extra_bytes()});
  seeds["xyz"].push_back({"comma.xyz", "# a comment\nx,y,z\n1,2,3,9\n-4.5, 1e3 ,inf # end\n"});
  seeds["xyz"].push_back({"count.xyz", "2\n1 2 3\n4 5 6\n"});
  seeds["npy"].push_back({"big.npy", std::string("\x93NUMPY\x02\x00\x3a\x00\x00\x00", 12) +
                                         "{'descr': '>f4', 'fortran_order': True, 'shape': (2, 1)} \n" +
                                         std::string("\x3f\x80\x00\x00\x40\x00\x00\x00", 8)});

  Neighbors result;
  result.queries = 2;
  result.k = 2;
  result.indices = {7, 3, 12, -1};
  result.distances = std::vector<float>{0.5F, 1.25F, 2, std::numeric_limits<float>::infinity()};
  const std::vector<std::pair<std::string, std::string>> results = {
      {"ivecs", "r.ivecs"}, {"ibin", "r.ibin"}, {"json", "r.json"}, {"table", "r.txt"}, {"hdf5", "r.h5"}};
  for (const auto& [format, file] : results) {
    write_neighbors(folder / file, result);
    seeds[format].push_back({file, slurp(folder / file)});
  }
  write_neighbors(folder / "r", result);
  seeds["npy"].push_back({"r.indices.npy", slurp(folder / "r.indices.npy")});
  write_index_file(
      folder / "a.kith",
      {{"index", "brute_force"}, {"rows", 2}, {"dim", 3}, {"dtype", "f32"}, {"metric", "euclidean"}},
      {{"dataset", 24, [&](const auto& sink) { sink(floats.data(), 24); }}});
  seeds["index"].push_back({"a.kith", slurp(folder / "a.kith")});
  // A graph of two nodes: its header has what no other index has.
  const std::vector<std::uint32_t> edges = {1, 0xFFFFFFFFU, 0xFFFFFFFFU, 0xFFFFFFFFU,
                                            0, 0xFFFFFFFFU, 0xFFFFFFFFU, 0xFFFFFFFFU};
  const std::vector<double> mean = {0.5, 0, 0};
  nlohmann::json graph = {
      {"index", "vamana"},
      {"layout", 1},
      {"rows", 2},
      {"dim", 3},
      {"dtype", "f32"},
      {"metric", "euclidean"},
      {"max_degree", 4},
      {"build_list_size", 8},
      {"alpha", 1.1},
      {"seed", 0},
      {"nodes", 2},
      {"nan_rows", 0},
      {"step", 0.25},
      {"largest_norm", 0.0},
      {"recall_curve",
       {{"queries", 100},
        {"points", nlohmann::json::array({nlohmann::json::array({10, 16, 0.9, 0.88, 0.92, 17.5, 200.0})})}}}};
  std::vector<IndexSection> sections = {{"dataset", 24, [&](const auto& sink) { sink(floats.data(), 24); }},
                                        {"mean", 24, [&](const auto& sink) { sink(mean.data(), 24); }},
                                        {"edges", 32, [&](const auto& sink) { sink(edges.data(), 32); }},
                                        {"entries", 4, [&](const auto& sink) { sink(edges.data() + 4, 4); }}};
  write_index_file(folder / "graph.kith", graph, sections);
  seeds["index"].push_back({"graph.kith", slurp(folder / "graph.kith")});
  // And one that keeps the codes of its nodes, and their rows.
  const std::vector<std::uint8_t> codes(64, 128);
  const std::vector<std::uint32_t> node_rows = {0, 1, 2};
  graph.update({{"layout", 3},
                {"code_bits", 8},
                {"code_dim", 3},
                {"code_values", 3},
                {"leading", 0},
                {"unit", 1.0},
                {"rerank_factor", 2}});
  sections.push_back({"codes", 64, [&](const auto& sink) { sink(codes.data(), 64); }});
  sections.push_back({"node_first", 12, [&](const auto& sink) { sink(node_rows.data(), 12); }});
  sections.push_back({"node_rows", 8, [&](const auto& sink) { sink(node_rows.data(), 8); }});
  write_index_file(folder / "graph_3.kith", graph, sections);
  seeds["index"].push_back({"graph_3.kith", slurp(folder / "graph_3.kith")});
  // And one of RaBitQ codes.
  graph.update({{"layout", 4},
                {"codes", "rabitq"},
                {"rabitq_bits", 4},
                {"pq_subspaces", 0},
                {"walked", nlohmann::json::object()}});
  sections.push_back({"walked_mean", 24, [&](const auto& sink) { sink(mean.data(), 24); }});
  sections.push_back({"walked_codes", 56, [&](const auto& sink) { sink(codes.data(), 56); }});
  write_index_file(folder / "graph_4.kith", graph, sections);
  seeds["index"].push_back({"graph_4.kith", slurp(folder / "graph_4.kith")});
  write_index_file(folder / "quantizer.kith",
                   {{"index", "quantizer"},
                    {"layout", 1},
                    {"kind", "rabitq"},
                    {"rows", 0},
                    {"dim", 3},
                    {"dtype", "f32"},
                    {"metric", "sqeuclidean"},
                    {"bits", 4},
                    {"seed", 0}},
                   {{"mean", 24, [&](const auto& sink) { sink(mean.data(), 24); }}});
  seeds["index"].push_back({"quantizer.kith", slurp(folder / "quantizer.kith")});
  return seeds;
}

}  // namespace kith::fuzz
