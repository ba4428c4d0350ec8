import { Outlet, useRouterState } from '@tanstack/react-router';
import { PanelLeft } from 'lucide-react';
import { Suspense, useEffect, useState } from 'react';
import { cn } from '../lib/cn';
import { IconButton } from '../ui/button';
import { Spinner } from '../ui/page';
import { Sidebar } from './sidebar';

const narrow = matchMedia('(max-width: 767px)');

/** Layout has the sidebar beside the room; in narrow windows the sidebar lies over it while it is open. */
export function Layout() {
  const [open, setOpen] = useState(!narrow.matches);
  const path = useRouterState({ select: (state) => state.location.pathname });

  useEffect(() => {
    if (narrow.matches) setOpen(false);
  }, [path]);
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      if ((event.metaKey || event.ctrlKey) && event.key === 'b' && !event.shiftKey) {
        event.preventDefault();
        setOpen((was) => !was);
      } else if (event.key === 'Escape' && narrow.matches) setOpen(false);
    };
    const resized = () => setOpen(!narrow.matches);
    addEventListener('keydown', listen);
    narrow.addEventListener('change', resized);
    return () => {
      removeEventListener('keydown', listen);
      narrow.removeEventListener('change', resized);
    };
  }, []);

  return (
    <div className="relative flex h-full overflow-hidden">
      <a href="#room" className="sr-only z-50 rounded bg-accent px-3 py-2 text-accent-ink focus:not-sr-only focus:absolute focus:top-2 focus:left-2">Skip to the content</a>
      {open && <div className="absolute inset-0 z-20 bg-black/40 md:hidden" onClick={() => setOpen(false)} aria-hidden />}
      <div className={cn('z-30 w-72 shrink-0 max-md:absolute max-md:inset-y-0 max-md:left-0 max-md:shadow-xl', !open && 'hidden')}>
        <Sidebar onHide={() => setOpen(false)} />
      </div>
      <main id="room" tabIndex={-1} className="relative min-w-0 flex-1 outline-none">
        {!open && (
          <div className="absolute top-2 left-2 z-10"><IconButton label="Show the sidebar (Ctrl+B)" onClick={() => setOpen(true)}><PanelLeft size={18} /></IconButton></div>
        )}
        <div className={cn('h-full', !open && 'sidebar-hidden')}>
          <Suspense fallback={<div className="p-4 pl-14"><Spinner /></div>}><Outlet /></Suspense>
        </div>
      </main>
    </div>
  );
}
