import { defineConfig } from "vite";
import { oneFile } from "./build/one-file.js";

// Two pages, each built by itself: the report, and with `--mode database` that of a database.
export default defineConfig(({ mode }) => {
  const [input, page] = mode === "database" ? ["database.html", "database.html"] : ["index.html", "page.html"];
  return {
    plugins: [oneFile(page)],
    build: {
      target: "es2022",
      cssTarget: "esnext",
      modulePreload: false,
      cssCodeSplit: false,
      reportCompressedSize: false,
      // The other one stays.
      emptyOutDir: false,
      rolldownOptions: { input, output: { format: "iife" } },
    },
    // A limit only ends what hangs.
    test: { include: ["tests/*.test.{ts,tsx,js}"], testTimeout: 600_000, hookTimeout: 600_000 },
  };
});
