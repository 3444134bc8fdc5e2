// A real recording, made by the whatif that `WHATIF` names, of a program whose answer is known.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { command, ran } from "./browser.js";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** The binary; undefined if there is none. */
export const WHATIF = process.env.WHATIF;
if (WHATIF === undefined) console.log("skipped: what needs a real recording; say where whatif is: WHATIF=../target/release/whatif");
else if (!existsSync(WHATIF)) throw new Error(`WHATIF=${WHATIF}: there is no such file`);

/** Compiles targets/c/mutex.c, in which A is worth its share and B nothing; the path of the program. */
export function built(folder) {
  const program = join(folder, "mutex");
  if (!existsSync(program)) {
    const flags = ["-std=gnu11", "-O2", "-g", "-fno-omit-frame-pointer", "-pthread", "-I", join(root, "include")];
    command("cc", [...flags, join(root, "targets/c/mutex.c"), "-o", program]);
  }
  return program;
}

/** Records it; the path of the recording. */
export function record(folder, name, options = []) {
  const program = built(folder);
  const recording = join(folder, `${name}.db`);
  const regions = ["--region", "A", "--region", "B", "--region", "mutex.c:17"];
  const words = ["run", "--quiet", "-o", recording, ...regions, "--speedup", "25,50,75,100", "--duration", "4", "--", program];
  command(WHATIF, [...words, "scale=0.1", "seconds=60", ...options], { isFine: ran });
  return recording;
}
