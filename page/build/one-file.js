// Makes one HTML file of what Vite built: script and style stand inside it, and a content security policy names them by
// their hashes, so that nothing else can run or be loaded.

import { createHash } from "node:crypto";

const MOST_BYTES = 150 * 1024;

/** The hash of what stands between the tags, as a policy writes it. */
export function hashOf(text) {
  return `'sha256-${createHash("sha256").update(text, "utf8").digest("base64")}'`;
}

/** Nothing is allowed but this script, this style, and to ask the server the page came from, if it came from one. */
export function policy(script, style) {
  return [
    "default-src 'none'",
    `script-src ${hashOf(script)}`,
    `style-src ${hashOf(style)}`,
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join("; ");
}

/** `html` without Vite's references, with `script` and `style` inside. */
export function assemble(html, script, style) {
  for (const [what, text] of [["script", script], ["style", style]]) {
    if (new RegExp(`</${what}|<!--`, "i").test(text)) throw new Error(`the ${what} would end its own element`);
  }
  const bare = html
    .replace(/\s*<script type="module"[^>]*><\/script>/g, "")
    .replace(/\s*<link rel="(?:stylesheet|modulepreload)"[^>]*>/g, "");
  const meta = `<meta http-equiv="Content-Security-Policy" content="${policy(script, style)}" />`;
  // The policy comes first, and replacements are functions: "$&" in a script is no pattern.
  const page = bare
    .replace('<meta charset="utf-8" />', (charset) => `${charset}\n    ${meta}`)
    .replace("</head>", () => `  <style>${style}</style>\n  </head>`)
    .replace("</body>", () => `  <script>${script}</script>\n  </body>`);
  if (!page.includes(meta) || !page.includes(`<script>${script}`) || !page.includes(`<style>${style}`)) {
    throw new Error("the HTML is not what build/one-file.js expects");
  }
  return page;
}

/** The plugin; `page` is the name of the file in `dist/`. */
export function oneFile(page) {
  return {
    name: "one-file",
    enforce: "post",
    generateBundle(_, bundle) {
      let [html, script, style] = ["", "", ""];
      for (const [name, file] of Object.entries(bundle)) {
        if (file.type === "chunk") script += file.code.trim();
        else if (name.endsWith(".html")) html = String(file.source);
        else if (name.endsWith(".css")) style += String(file.source).trim();
        else throw new Error(`${name} has no place in one file`);
        delete bundle[name];
      }
      const whole = assemble(html, script, style);
      const bytes = Buffer.byteLength(whole);
      if (bytes > MOST_BYTES) throw new Error(`${page} has ${bytes} bytes; ${MOST_BYTES} are allowed`);
      this.emitFile({ type: "asset", fileName: page, source: whole });
      console.log(`${page}: ${bytes} bytes (script ${Buffer.byteLength(script)}, style ${Buffer.byteLength(style)})`);
    },
  };
}
