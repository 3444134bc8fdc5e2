import { defineConfig } from "vitest/config";

// In a real browser: see browser/. A limit only ends what hangs.
const LIMIT = 600_000;

export default defineConfig({
  test: { include: ["browser/*.test.js"], maxWorkers: 2, testTimeout: LIMIT, hookTimeout: LIMIT, expect: { poll: { timeout: LIMIT } } },
});
