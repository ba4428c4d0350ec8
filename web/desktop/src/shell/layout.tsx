import { Outlet, useNavigate, useRouterState } from '@tanstack/react-router';
import { PanelLeft } from 'lucide-react';
import { lazy, Suspense, useCallback, useEffect, useState } from 'react';
import { cn } from '../lib/cn';
import { t } from '../lib/i18n';
import { useQuestionNotifications } from '../lib/notifications';
import { IconButton } from '../ui/button';
import { actionOf, typesText } from './shortcuts';
import { Sidebar } from './sidebar';

const Palette = lazy(() => import('./palette'));
const Help = lazy(() => import('./help'));

const narrow = matchMedia('(max-width: 767px)');

/** Layout has the sidebar beside the room; in narrow windows the sidebar lies over it while it is open. */
export function Layout() {
  const [open, setOpen] = useState(!narrow.matches);
  const [over, setOver] = useState<'palette' | 'help'>();
  const path = useRouterState({ select: (state) => state.location.pathname });
  const navigate = useNavigate();
  useQuestionNotifications(useCallback((sessionId: string) => void navigate({ to: '/s/$sessionId', params: { sessionId } }), [navigate]));
  const close = () => setOver(undefined);

  useEffect(() => {
    if (narrow.matches) setOpen(false);
  }, [path]);
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      const action = actionOf(event, typesText(event.target));
      if (action !== undefined) {
        if (action === 'help' && document.querySelector('[role="dialog"]')) return;
        event.preventDefault();
        if (action === 'new') void navigate({ to: '/' });
        else setOver(action);
      } else if ((event.metaKey || event.ctrlKey) && event.key === 'b' && !event.shiftKey) {
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
  }, [navigate]);

  return (
    <div className="relative flex h-full overflow-hidden">
      <a
        href="#room"
        className="sr-only z-50 rounded bg-accent px-3 py-2 text-accent-ink focus:not-sr-only focus:absolute focus:top-2 focus:left-2"
      >
        {t('Skip to the content')}
      </a>
      {open && <div className="absolute inset-0 z-20 bg-black/40 md:hidden" onClick={() => setOpen(false)} aria-hidden />}
      <div className={cn('z-30 w-72 shrink-0 max-md:absolute max-md:inset-y-0 max-md:left-0 max-md:shadow-xl', !open && 'hidden')}>
        <Sidebar onHide={() => setOpen(false)} />
      </div>
      <main id="room" tabIndex={-1} className="relative min-w-0 flex-1 outline-none">
        {!open && (
          <div className="absolute top-2 left-2 z-10">
            <IconButton label={t('Show the sidebar (Ctrl+B)')} onClick={() => setOpen(true)}>
              <PanelLeft size={18} />
            </IconButton>
          </div>
        )}
        <div className={cn('h-full', !open && 'sidebar-hidden')}>
          <Outlet />
        </div>
      </main>
      {over !== undefined && (
        <Suspense fallback={null}>
          {over === 'palette' ? <Palette close={close} help={() => setOver('help')} /> : <Help close={close} />}
        </Suspense>
      )}
    </div>
  );
}
