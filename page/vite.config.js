import { defineConfig } from "vite";
import { oneFile } from "./build/one-file.js";

export default defineConfig({
  plugins: [oneFile()],
  build: {
    target: "es2022",
    cssTarget: "esnext",
    modulePreload: false,
    cssCodeSplit: false,
    reportCompressedSize: false,
    rolldownOptions: { output: { format: "iife" } },
  },
  test: { include: ["tests/*.test.{ts,tsx,js}"] },
});
