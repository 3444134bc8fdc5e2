import { defineConfig } from "vitest/config";

// In a real browser: see browser/. One file at a time, so that the times that are printed mean something. A limit only ends what hangs.
export default defineConfig({
  test: { include: ["browser/*.test.js"], fileParallelism: false, testTimeout: 600_000, hookTimeout: 600_000 },
});
