// Two files and a page that names them: the server has them inside it.
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [svelte()],
  base: "./",
  build: {
    target: "es2021",
    modulePreload: false,
    cssCodeSplit: false,
    rollupOptions: {
      output: { inlineDynamicImports: true, entryFileNames: "app.js", assetFileNames: "app[extname]" },
    },
  },
});
