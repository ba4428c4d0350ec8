import tailwind from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { budget } from './build/budget.ts';
import { compress } from './build/compress.ts';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const agent = process.env.EVERLOOP_URL ?? 'http://127.0.0.1:8020';

export default defineConfig({
  plugins: [
    react(), tailwind(), compress(),
    budget({ limit: 300_000, rooms: ['/rooms/chat/new-chat.tsx', '/rooms/chat/chat.tsx'], choices: /\/texts\/\w+\/start\.json$/ }),
  ],
  resolve: {
    // The SDK is compiled from its sources, with the Socket.IO client of this project.
    alias: { '@': here('./src'), '@everloop/sdk': here('../../sdk/js/src/index.ts') },
    dedupe: ['socket.io-client'],
  },
  build: {
    outDir: 'dist/app', emptyOutDir: true, target: 'es2023', assetsInlineLimit: 0, sourcemap: false, modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 900,
  },
  // For `npm run dev`: the agent has to allow this origin where sign-ins use cookies.
  server: { fs: { allow: [here('../..')] }, proxy: { '/api': agent, '/socket.io': { target: agent, ws: true } } },
  test: { environment: 'happy-dom', include: ['test/**/*.test.{ts,tsx}'], restoreMocks: true },
});
