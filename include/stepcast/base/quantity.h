// Quantities as types: time, bytes, FLOPs and rates that do not mix by accident.
//
// Time is std::chrono in whole picoseconds (64 bit: about 106 days); Bytes are whole; FLOPs and rates are
// doubles, since a 405B step needs 4e19 FLOPs. Raw numbers convert explicitly only.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <string>

namespace stepcast {

template <class Tag, class Rep>
class Quantity {
 public:
  using rep = Rep;
  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep count) : count_(count) {}
  constexpr Rep count() const { return count_; }
  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity operator-() const { return Quantity(-count_); }
  constexpr Quantity& operator+=(Quantity o) {
    count_ += o.count_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity o) {
    count_ -= o.count_;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.count_ + b.count_); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.count_ - b.count_); }
  friend constexpr Quantity operator*(Quantity a, Rep k) { return Quantity(a.count_ * k); }
  friend constexpr Quantity operator*(Rep k, Quantity a) { return Quantity(a.count_ * k); }
  friend constexpr Quantity operator/(Quantity a, Rep k) { return Quantity(a.count_ / k); }
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.count_) / static_cast<double>(b.count_);
  }

 private:
  Rep count_{};
};

using Time = std::chrono::duration<std::int64_t, std::pico>;
using Bytes = Quantity<struct BytesTag, std::int64_t>;
using Flops = Quantity<struct FlopsTag, double>;
using Bandwidth = Quantity<struct BandwidthTag, double>;  // bytes per second
using FlopRate = Quantity<struct FlopRateTag, double>;    // FLOPs per second
using Power = Quantity<struct PowerTag, double>;          // watts

// Whole picoseconds nearest to `s` seconds; throws std::overflow_error beyond 64 bit and on NaN.
Time seconds(double s);
constexpr double to_seconds(Time t) { return static_cast<double>(t.count()) * 1e-12; }

// Time to move or compute at a rate, rounded up to a picosecond; a rate of zero or less throws.
Time operator/(Bytes b, Bandwidth r);
Time operator/(Flops f, FlopRate r);
Bandwidth operator/(Bytes b, Time t);
FlopRate operator/(Flops f, Time t);

// Text to quantity: "1.5 us", "80 GB", "80 GiB", "400 Gb/s", "400 GB/s", "312 TFLOP/s", "700 W". A bare number is
// in the SI base unit. Throws std::invalid_argument with a message that names what was expected.
Time parse_time(const std::string& text);
Bytes parse_bytes(const std::string& text);
Bandwidth parse_bandwidth(const std::string& text);
FlopRate parse_flop_rate(const std::string& text);
Power parse_power(const std::string& text);

// Quantity to text with a fitting unit: "1.234 ms", "79.1 GiB", "400 GB/s", "312 TFLOP/s".
std::string to_string(Time t);
std::string to_string(Bytes b);
std::string to_string(Bandwidth r);
std::string to_string(FlopRate r);
std::string to_string(Power p);

namespace literals {
constexpr Bytes operator""_B(unsigned long long v) { return Bytes(static_cast<std::int64_t>(v)); }
constexpr Bytes operator""_KiB(unsigned long long v) { return Bytes(static_cast<std::int64_t>(v) << 10); }
constexpr Bytes operator""_MiB(unsigned long long v) { return Bytes(static_cast<std::int64_t>(v) << 20); }
constexpr Bytes operator""_GiB(unsigned long long v) { return Bytes(static_cast<std::int64_t>(v) << 30); }
constexpr Bandwidth operator""_GBps(long double v) { return Bandwidth(static_cast<double>(v) * 1e9); }
constexpr Time operator""_us(unsigned long long v) { return Time(static_cast<std::int64_t>(v) * 1000000); }
constexpr Time operator""_ps(unsigned long long v) { return Time(static_cast<std::int64_t>(v)); }
}  // namespace literals

}  // namespace stepcast
