// Another library under measurement: a Python process that answers over a socket (benchmarks/peers/run.py).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace kith::cli {

/// What a peer is asked to do.
struct PeerTask {
  std::string peer;               ///< "faiss", ...
  std::filesystem::path python;   ///< interpreter that has the peer installed
  std::filesystem::path runner;   ///< benchmarks/peers/run.py
  std::filesystem::path base;     ///< npy file
  std::filesystem::path queries;  ///< npy file
  std::int64_t max_queries = -1;  ///< the first so many; -1: all
  std::int64_t batch = 0;         ///< queries a call; 0: all in one call
  std::int64_t k = 10;
  std::string metric = "sqeuclidean";
  int threads = 1;
};

/// A child process. It loads and builds on construction, then searches once a call of search(), so that
/// its runs and Kith's can take turns.
class PeerProcess {
 public:
  /// @throws Error when it cannot be started or cannot do the task; says why
  explicit PeerProcess(const PeerTask& task);
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  /// What it said when it was ready: name, version, build_seconds, exact, note.
  const nlohmann::json& about() const noexcept { return about_; }
  /// One search of all queries: the seconds of each call.
  std::vector<double> search();
  /// Ends it; `stem`.indices.npy and `stem`.distances.npy hold its last answer.
  /// @return peak_rss_bytes, negative_distances
  nlohmann::json finish(const std::filesystem::path& stem);

 private:
  nlohmann::json ask(const nlohmann::json& request);
  nlohmann::json read_reply();
  void stop() noexcept;

  std::string name_;
  int socket_ = -1;
  int process_ = -1;
  std::string unread_;
  nlohmann::json about_;
};

}  // namespace kith::cli
