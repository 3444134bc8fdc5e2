import { expect, test } from "vitest";
import * as format from "../src/format";

test("a minus is a real one, and there is none before a zero", () => {
  expect(format.fixed(-0.51, 2)).toBe("−0.51");
  expect(format.fixed(-0.001, 2)).toBe("0.00");
  expect(format.fixed(-0.4, 0)).toBe("0");
});

test("per cents are whole unless that would hide everything", () => {
  const of = (value: number, half: number) => format.plusMinus({ value, lo: value - half, hi: value + half });
  expect(of(0.11, 0.02)).toBe("11 % ± 2 %");
  expect(of(0.112, 0.004)).toBe("11.2 % ± 0.4 %");
  expect(of(-0.07, 0.03)).toBe("−7 % ± 3 %");
  expect(of(-0.0001, 0.03)).toBe("0.0 % ± 3.0 %");
  expect(format.plusMinus({ value: -0.07, lo: -0.1, hi: -0.04 }, true)).toBe("7 % ± 3 %");
});

test("slopes and intervals", () => {
  expect(format.slope(0.36, 0.02)).toBe("0.36 (0.02)");
  expect(format.slope(-0.36, null)).toBe("−0.36 (?)");
  expect(format.slope(null, null)).toBe("–");
  expect(format.range(-0.58, -0.46)).toBe("−0.58 … −0.46");
  expect(format.range(null, 1)).toBe("–");
});

test("shares and speedups", () => {
  expect(format.share(0.24)).toBe("24 %");
  expect(format.share(0.004)).toBe("<1 %");
  expect(format.share(0)).toBe("0 %");
  expect(format.share(null)).toBe("–");
  expect(format.speedup(0.25)).toBe("25 %");
  expect(format.speedup(0.125)).toBe("12.5 %");
});

test("three digits and times, as the terminal has them", () => {
  expect([9.99, 9.995, 12.34, 99.96, 10062].map(format.threeDigits)).toEqual(["9.99", "10.0", "12.3", "100", "10062"]);
  expect([412, 398_000, 12_300_000, 1.5e9].map(format.duration)).toEqual(["412 ns", "398 µs", "12.3 ms", "1.50 s"]);
});
