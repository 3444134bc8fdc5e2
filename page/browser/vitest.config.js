import { defineConfig } from "vitest/config";

// In a real browser: see browser/. One file at a time, so that times mean something.
export default defineConfig({
  test: { include: ["browser/*.test.js"], fileParallelism: false, testTimeout: 60_000, hookTimeout: 120_000 },
});
