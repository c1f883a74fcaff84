import { defineConfig } from "vite";

// Relative addresses: the console works behind any path prefix. Nothing becomes a data: address,
// which the content security policy forbids.
export default defineConfig({
  base: "./",
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  build: { target: "es2022", assetsInlineLimit: 0, modulePreload: { polyfill: false } },
});
