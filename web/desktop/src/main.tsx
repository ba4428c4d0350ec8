import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { setNonce } from 'get-nonce';
import { Tooltip } from 'radix-ui';
import { lazy, StrictMode, Suspense } from 'react';
import { createRoot } from 'react-dom/client';
import { restore, useAuth } from './lib/auth';
import { roomTexts } from './lib/i18n';
import { nonce } from './lib/nonce';
import { queryClient } from './lib/query';
import { router } from './router';
import { SignIn } from './shell/sign-in';
import { Toasts } from './ui/toast';
import './styles.css';

setNonce(nonce); // of the styles that Radix adds to the page

// The documentation needs no sign-in.
const onDocs = /^\/docs(\/|$)/.test(location.pathname);
const Docs = lazy(async () => {
  await roomTexts();
  return import('./docs/site');
});

function App() {
  const auth = useAuth();
  if (auth.status === 'unknown') return null;
  if (auth.status === 'out') return <SignIn ways={auth.ways} notice={auth.notice} />;
  return <RouterProvider router={router} />;
}

if (!onDocs) void restore();
createRoot(document.getElementById('root') as HTMLElement).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <Tooltip.Provider delayDuration={400}>
        {onDocs ? <Suspense fallback={null}><Docs /></Suspense> : <App />}
        <Toasts />
      </Tooltip.Provider>
    </QueryClientProvider>
  </StrictMode>,
);
