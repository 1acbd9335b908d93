// Strips 200 m wide and 1 km long, flown to and fro with 10 % overlap; a zigzag of scan lines across each;
// hills of value noise, forests whose crowns return part of the pulses, flat-roofed houses.
#include "generate/terrain.hpp"

#include <algorithm>
#include <cmath>

#include "generate/random.hpp"

namespace kith::generators {
namespace {

// Streams 0 to 15 belong to generate.cpp.
constexpr std::uint32_t stream_pulse = 16;
constexpr std::uint32_t stream_house = 17;
constexpr std::uint32_t stream_noise = 32;  // + octave

// A random value in [0, 1) at a lattice point.
double lattice(std::uint64_t seed, std::uint32_t stream, std::int64_t x, std::int64_t y) {
  const auto cell =
      (static_cast<std::uint64_t>(static_cast<std::uint32_t>(x)) << 32U) | static_cast<std::uint32_t>(y);
  return Row(seed, stream, cell).uniform();
}

// Value noise: lattice values `wavelength` metres apart, joined by smoothstep; in [0, 1).
double noise(std::uint64_t seed, std::uint32_t octave, double x, double y, double wavelength) {
  const double u = x / wavelength;
  const double v = y / wavelength;
  const double floor_u = std::floor(u);
  const double floor_v = std::floor(v);
  const auto i = static_cast<std::int64_t>(floor_u);
  const auto j = static_cast<std::int64_t>(floor_v);
  const double a = u - floor_u;
  const double b = v - floor_v;
  const double s = a * a * (3 - 2 * a);
  const double t = b * b * (3 - 2 * b);
  const std::uint32_t stream = stream_noise + octave;
  const double low = lattice(seed, stream, i, j) * (1 - s) + lattice(seed, stream, i + 1, j) * s;
  const double high = lattice(seed, stream, i, j + 1) * (1 - s) + lattice(seed, stream, i + 1, j + 1) * s;
  return low * (1 - t) + high * t;
}

double ground(std::uint64_t seed, double x, double y) {
  return 60 * noise(seed, 0, x, y, 500) + 18 * noise(seed, 1, x, y, 160) + 4 * noise(seed, 2, x, y, 45) +
         0.6 * noise(seed, 3, x, y, 11);
}

// Height of the roof above (x, y), 0 outside houses: at most one house a 40 m square.
double roof(std::uint64_t seed, double x, double y) {
  constexpr double square = 40;
  const double i = std::floor(x / square);
  const double j = std::floor(y / square);
  const auto cell =
      (static_cast<std::uint64_t>(static_cast<std::uint32_t>(static_cast<std::int64_t>(i))) << 32U) |
      static_cast<std::uint32_t>(static_cast<std::int64_t>(j));
  Row random(seed, stream_house, cell);
  if (random.uniform() > 0.2) return 0;
  const double width = 8 + 14 * random.uniform();
  const double length = 8 + 18 * random.uniform();
  const double left = i * square + (square - width) * random.uniform();
  const double bottom = j * square + (square - length) * random.uniform();
  if (x < left || x > left + width || y < bottom || y > bottom + length) return 0;
  const double base = ground(seed, left + width / 2, bottom + length / 2);
  const double eaves = 3 + 8 * random.uniform();
  // A gable along the length.
  const double ridge = 0.4 * (width / 2 - std::fabs(x - left - width / 2));
  return std::max(0.0, base + eaves + ridge - ground(seed, x, y));
}

double crown(std::uint64_t seed, double x, double y, Row& pulse) {
  if (noise(seed, 4, x, y, 120) < 0.55) return 0;  // no forest here
  if (pulse.uniform() < 0.35) return 0;            // through the leaves to the ground
  const double top = 6 + 16 * noise(seed, 5, x, y, 5);
  const double depth = pulse.uniform();
  return top * (1 - 0.6 * depth * depth);
}

}  // namespace

std::array<double, 3> terrain_point(std::uint64_t seed, std::int64_t index, double points_per_square_metre,
                                    bool utm) {
  constexpr double strip_width = 200;
  constexpr double strip_length = 1000;
  const double step = 1 / std::sqrt(points_per_square_metre);
  const auto a_line = std::max<std::int64_t>(2, static_cast<std::int64_t>(strip_width / step));
  const auto lines = std::max<std::int64_t>(1, static_cast<std::int64_t>(strip_length / step));
  const std::int64_t strip = index / (a_line * lines);
  const std::int64_t line = index / a_line % lines;
  const std::int64_t position = index % a_line;

  const double share = (static_cast<double>(position) + 0.5) / static_cast<double>(a_line);
  const double across = line % 2 == 0 ? share : 1 - share;
  const double along = (static_cast<double>(line) + share) * step;
  Row pulse(seed, stream_pulse, static_cast<std::uint64_t>(index));
  const double x =
      static_cast<double>(strip) * 0.9 * strip_width + across * strip_width + 0.15 * step * pulse.normal();
  const double y = (strip % 2 == 0 ? along : strip_length - along) + 0.15 * step * pulse.normal();
  double above = roof(seed, x, y);
  if (above == 0) above = crown(seed, x, y, pulse);
  const double z = ground(seed, x, y) + above + 0.02 * pulse.normal();

  // Instruments store centimetres as integers: offsets are added there, so that the same landscape
  // comes out at both places.
  const std::array<double, 3> offset =
      utm ? std::array<double, 3>{50000000, 540000000, 20000} : std::array<double, 3>{0, 0, 0};
  const std::array<double, 3> metres = {x, y, z};
  std::array<double, 3> out{};
  for (std::size_t i = 0; i < 3; ++i) out[i] = (std::floor(metres[i] * 100 + 0.5) + offset[i]) / 100;
  return out;
}

}  // namespace kith::generators
