// The float64 oracle.
#include "reference/oracle.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kith::reference {
namespace {

// Sum over i of term(sum so far of lane i % 8, i), the eight lanes added up in the documented order.
template <class Term>
double sum_lanes(std::int64_t dim, Term term) {
  double s[8] = {};
  for (std::int64_t i = 0; i < dim; ++i) s[i % 8] = term(s[i % 8], i);
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

bool has_nan(const double* row, std::int64_t dim) {
  return std::any_of(row, row + dim, [](double value) { return std::isnan(value); });
}

}  // namespace

double distance(const double* q, const double* x, std::int64_t dim, Metric metric) {
  const auto dot = [dim](const double* a, const double* b) {
    return sum_lanes(dim, [=](double s, std::int64_t i) { return std::fma(a[i], b[i], s); });
  };
  const auto squares = [=] {
    return sum_lanes(dim, [=](double s, std::int64_t i) { return std::fma(q[i] - x[i], q[i] - x[i], s); });
  };
  switch (metric) {
    case Metric::sqeuclidean: return squares();
    case Metric::euclidean: return std::sqrt(squares());
    case Metric::inner_product: return 0 - dot(q, x);
    case Metric::manhattan:
      return sum_lanes(dim, [=](double s, std::int64_t i) { return s + std::abs(q[i] - x[i]); });
    case Metric::cosine: break;
  }
  const double qq = dot(q, q);
  const double xx = dot(x, x);
  if (std::isnan(qq) || std::isnan(xx)) return qq + xx;
  if (qq == 0 || xx == 0) return 1;
  const double value = 1 - dot(q, x) / (std::sqrt(qq) * std::sqrt(xx));
  return value < 0 ? 0 : value > 2 ? 2 : value;
}

Answer nearest(const Matrix& dataset, const double* query, std::int64_t k, Metric metric, bool single) {
  std::vector<std::pair<double, std::int64_t>> list;
  if (!has_nan(query, dataset.dim)) {
    for (std::int64_t i = 0; i < dataset.rows; ++i) {
      if (has_nan(dataset.row(i), dataset.dim)) continue;
      const double exact = distance(query, dataset.row(i), dataset.dim, metric);
      if (!std::isnan(exact)) list.emplace_back(single ? static_cast<float>(exact) : exact, i);
    }
  }
  std::sort(list.begin(), list.end());
  list.resize(std::min(list.size(), static_cast<std::size_t>(k)));
  Answer answer;
  for (const auto& [distance, index] : list) {
    answer.distances.push_back(distance);
    answer.indices.push_back(index);
  }
  return answer;
}

}  // namespace kith::reference
