import { expect, test } from "vitest";
import { decimals, linear, ticks } from "../src/scale";

test("a scale goes there and back", () => {
  const y = linear(-0.1, 0.4, 300, 0);
  expect(y.at(-0.1)).toBe(300);
  expect(y.at(0.4)).toBe(0);
  expect(y.value(y.at(0.13))).toBeCloseTo(0.13);
  expect([y.clamp(9), y.clamp(-9), y.clamp(0.2)]).toEqual([0.4, -0.1, 0.2]);
});

test("a scale without length does not divide by zero", () => {
  expect(linear(1, 1, 0, 100).at(1)).toBe(0);
});

test("ticks are round", () => {
  expect(ticks(0, 1, 5)).toEqual([0, 0.2, 0.4, 0.6, 0.8, 1]);
  expect(ticks(-0.05, 0.31, 6)).toEqual([0, 0.1, 0.2, 0.3]);
  expect(ticks(0, 10062, 4)).toEqual([0, 5000, 10000]);
  expect(ticks(0, 60e9, 6)).toEqual([0, 10e9, 20e9, 30e9, 40e9, 50e9, 60e9]);
  expect(ticks(2, 2, 5)).toEqual([2]);
});

test("ticks are told apart", () => {
  expect(decimals([0, 0.2])).toBe(1);
  expect(decimals([0, 0.05])).toBe(2);
  expect(decimals([0, 100])).toBe(0);
});
