// What kith import and kith export share.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace kith::cli {

/// The --format of product quantizers, beside those of graphs.
inline constexpr const char* pq_format = "diskann-pq";

/// Names and meanings for --format: those that are read, or written.
inline std::vector<std::pair<std::string, std::string>> graph_formats(bool read) {
  std::vector<std::pair<std::string, std::string>> formats = {
      {"diskann", "DiskANN's index in memory, with its rows in FILE.data"},
      {"diskann-disk", "DiskANN's index on disk, P_disk.index"},
      {"hnswlib", "HNSW of hnswlib or cuVS"},
      {"faiss", "faiss IndexHNSWFlat"},
      {pq_format, "product quantizer: DiskANN's P_pq_pivots.bin"}};
  if (read) formats.emplace_back("bang", "P_disk.bin, with P_disk_metadata.bin beside it");
  return formats;
}

}  // namespace kith::cli
