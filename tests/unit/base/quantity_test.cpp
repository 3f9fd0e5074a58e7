#include "stepcast/base/quantity.h"

#include <cmath>
#include <limits>
#include <random>

#include "catch.hpp"

using namespace stepcast;
using namespace stepcast::literals;

TEST_CASE("Bytes over a bandwidth take bytes / bandwidth seconds, to the picosecond") {
  // 1 MiB / 50 GB/s = 1048576 / 50e9 s = 20971520 ps exactly: rounding up must not add one.
  CHECK(1_MiB / 50.0_GBps == 20971520_ps);
  CHECK(Bytes(1) / Bandwidth(1e12) == 1_ps);
  CHECK(Bytes(0) / Bandwidth(1) == 0_ps);
}

TEST_CASE("A duration rounds up to the next picosecond, and only then") {
  // 10 bytes at 3 TB/s: 3.33 ps. At 5e12: exactly 2 ps.
  CHECK(Bytes(10) / Bandwidth(3e12) == 4_ps);
  CHECK(Bytes(10) / Bandwidth(5e12) == 2_ps);
  CHECK(Flops(4e19) / FlopRate(1e15) == seconds(40000));
  CHECK(Flops(1) / FlopRate(1e300) == 1_ps);
  CHECK(Flops(0.5) / FlopRate(1e12) == 1_ps);
}

TEST_CASE("A duration is the least time in which the work is done") {
  // The law t * rate >= work > (t - 1 ps) * rate, checked in integers: rates are whole, so nothing
  // rounds.
  __extension__ using Wide = __int128;
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    const auto bytes = static_cast<std::int64_t>(random() >> (1 + random() % 40));
    const auto rate = static_cast<std::int64_t>(1 + (random() >> (11 + random() % 40)));
    const Wide work = static_cast<Wide>(bytes) * 1'000'000'000'000;
    if (work / rate >= (Wide(1) << 62)) {
      continue;  // exceeds 64 bits and is refused; another case tests that
    }
    const Wide t = (Bytes(bytes) / Bandwidth(static_cast<double>(rate))).count();
    REQUIRE(t * rate >= work);
    REQUIRE((t - 1) * rate < work);
  }
}

TEST_CASE("A rate of zero, below zero or NaN is refused; an infinite one is free") {
  CHECK_THROWS_AS(Bytes(1) / Bandwidth(0), std::domain_error);
  CHECK_THROWS_AS(Bytes(1) / Bandwidth(-1), std::domain_error);
  CHECK_THROWS_AS(Flops(1) / FlopRate(std::nan("")), std::domain_error);
  CHECK_THROWS_AS(Flops(std::nan("")) / FlopRate(1), std::domain_error);
  CHECK_THROWS_AS(Bytes(-1) / Bandwidth(1), std::domain_error);
  CHECK_THROWS_AS(Bytes(1) / Time(0), std::domain_error);
  CHECK(1_GiB / Bandwidth(std::numeric_limits<double>::infinity()) == 0_ps);
  CHECK_THROWS_AS(Bytes(1) / Bandwidth(1e-12), std::overflow_error);
  CHECK_THROWS_AS(Flops(1e300) / FlopRate(1e-300), std::overflow_error);
}

TEST_CASE("Seconds become the nearest picosecond, within 64 bit") {
  CHECK(seconds(1.1) == Time(1100000000000));
  CHECK(seconds(-2.6e-12) == Time(-3));
  CHECK(seconds(0.4e-12) == Time(0));
  CHECK_THROWS_AS(seconds(1e7), std::overflow_error);
  CHECK_THROWS_AS(seconds(-1e7), std::overflow_error);
  CHECK_THROWS_AS(seconds(std::nan("")), std::overflow_error);
  CHECK(to_seconds(seconds(3.25)) == 3.25);
}

TEST_CASE("Rates over time") {
  CHECK((Bytes(50) / seconds(2)).count() == 25);
  CHECK((Flops(1e15) / seconds(0.5)).count() == 2e15);
  CHECK(1_GiB / 1_MiB == 1024.0);
}

TEST_CASE("A small b is a bit: 400 Gb/s is 50 GB/s") {
  CHECK(parse_bandwidth("400 Gb/s") == Bandwidth(50e9));
  CHECK(parse_bandwidth("400 GB/s") == Bandwidth(400e9));
  CHECK(parse_bandwidth("400Gbps") == Bandwidth(50e9));
  CHECK(parse_bandwidth("400 Gbit/s") == Bandwidth(50e9));
  CHECK(parse_bandwidth("3.35 TB/s") == Bandwidth(3.35e12));
  CHECK(parse_bandwidth("1 GiB/s") == Bandwidth(1073741824.0));
  CHECK(parse_bandwidth("12") == Bandwidth(12));
}

TEST_CASE("Sizes: 1000 and 1024 are apart, and every byte counts") {
  CHECK(parse_bytes("80 GB") == Bytes(80'000'000'000));
  CHECK(parse_bytes("80 GiB") == 80_GiB);
  CHECK(parse_bytes("1.5 KiB") == Bytes(1536));
  CHECK(parse_bytes("9007199254740993") == Bytes(9007199254740993));
  CHECK(parse_bytes("15e12") == Bytes(15'000'000'000'000));
}

TEST_CASE("Times, rates of work and power") {
  CHECK(parse_time("1.5 us") == 1500000_ps);
  CHECK(parse_time("1.5 µs") == 1500000_ps);
  CHECK(parse_time(" 2 ms ") == seconds(2e-3));
  CHECK(parse_time("2") == seconds(2));
  CHECK(parse_time("0.1") == Time(100'000'000'000));
  CHECK(parse_time("1.5 h") == seconds(5400));
  CHECK(parse_time("2 d") == seconds(172800));
  CHECK(parse_time("3 min") == seconds(180));
  CHECK(parse_flop_rate("312 TFLOP/s") == FlopRate(312e12));
  CHECK(parse_flop_rate("1.979 PFLOP/s") == FlopRate(1.979e15));
  CHECK(parse_flop_rate("989.5 TFLOPS") == FlopRate(989.5e12));
  CHECK(parse_power("700 W") == Power(700));
  CHECK(parse_power("1.2 kW") == Power(1200));
  CHECK(parse_power("5 MW") == Power(5e6));
}

TEST_CASE("What is no quantity is refused with what was expected") {
  const auto says = [](const std::string& text) { return ContainsSubstring(text); };
  CHECK_THROWS_WITH(parse_bytes("80 Gb"), says("unknown unit 'Gb'") && says("did you mean 'GB'?"));
  CHECK_THROWS_WITH(parse_bandwidth("400 GB"), says("unknown unit 'GB'") && says("400 Gb/s"));
  CHECK_THROWS_WITH(parse_time("5 m"), says("unknown unit 'm'") && says("min"));
  CHECK_THROWS_WITH(parse_bytes("-1 GB"), says("'-1 GB' is negative; expected a size"));
  CHECK_THROWS_WITH(parse_bytes("nan GB"), says("has no number"));
  CHECK_THROWS_WITH(parse_bytes(""), says("has no number"));
  CHECK_THROWS_WITH(parse_bytes("inf"), says("has no number"));
  CHECK_THROWS_WITH(parse_bytes("010 GB"), says("looks octal"));
  CHECK_THROWS_WITH(parse_bytes("9e18 GB"), says("beyond range"));
  CHECK_THROWS_WITH(parse_bandwidth("1e308 TB/s"), says("beyond range"));
  CHECK_THROWS_WITH(parse_bandwidth("1e999 B/s"), says("beyond range"));
  CHECK_THROWS_WITH(parse_time("107 d"), says("beyond range"));
  CHECK_THROWS_WITH(parse_power("1.2.3 W"), says("is not a number"));
  CHECK_THROWS_WITH(parse_flop_rate("312 TFLOP"), says("did you mean 'TFLOPS'?"));
}

TEST_CASE("Quantities print four significant digits in a fitting unit") {
  CHECK(to_string(Time(1234000000)) == "1.234 ms");
  CHECK(to_string(Time(0)) == "0 ps");
  CHECK(to_string(Time(999)) == "999 ps");
  CHECK(to_string(seconds(12.3456)) == "12.35 s");
  CHECK(to_string(seconds(123456)) == "123456 s");
  CHECK(to_string(-seconds(1e-6)) == "-1 us");
  CHECK(to_string(Time(999960)) == "1 us");
  CHECK(to_string(80_GiB) == "80 GiB");
  CHECK(to_string(Bytes(84'932'532'634)) == "79.1 GiB");
  CHECK(to_string(Bytes(512)) == "512 B");
  CHECK(to_string(Bandwidth(400e9)) == "400 GB/s");
  CHECK(to_string(FlopRate(312e12)) == "312 TFLOP/s");
  CHECK(to_string(Power(700)) == "700 W");
  CHECK(to_string(Power(10.2)) == "10.2 W");
}

TEST_CASE("What prints reads back the same, within the printed digits") {
  for (double v = 1; v < 1e15; v *= 7.3) {
    CHECK(parse_bandwidth(to_string(Bandwidth(v))).count() == Approx(v).epsilon(1e-3));
    CHECK(parse_flop_rate(to_string(FlopRate(v))).count() == Approx(v).epsilon(1e-3));
    CHECK(to_seconds(parse_time(to_string(seconds(v * 1e-10)))) == Approx(v * 1e-10).epsilon(1e-3));
  }
}
