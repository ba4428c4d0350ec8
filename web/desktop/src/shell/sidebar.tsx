import { Link } from '@tanstack/react-router';
import { LogOut, Monitor, Moon, PanelLeft, Plus, Search, Sun } from 'lucide-react';
import { useDeferredValue, useState } from 'react';
import { signOut, useAuth } from '../lib/auth';
import { t } from '../lib/i18n';
import { setTheme, useTheme } from '../lib/theme';
import { rooms } from '../rooms';
import { IconButton } from '../ui/button';
import { Input } from '../ui/field';
import { Menu } from '../ui/menu';
import { SessionList } from './sessions';

export function Sidebar({ onHide }: { onHide: () => void }) {
  const [text, setText] = useState('');
  const q = useDeferredValue(text.trim());
  const auth = useAuth();
  const administrator = auth.status === 'in' && auth.me.administrator;

  return (
    <aside aria-label={t('Sidebar')} className="flex h-full flex-col border-r bg-panel">
      <div className="flex h-12 items-center gap-1 px-2">
        <IconButton label={t('Hide the sidebar (Ctrl+B)')} onClick={onHide}>
          <PanelLeft size={18} />
        </IconButton>
        <span className="flex-1 px-1 font-semibold">Everloop</span>
        <Link
          to="/"
          aria-label={t('New session')}
          title={t('New session')}
          className="inline-flex size-8 items-center justify-center rounded-md text-soft hover:bg-hover hover:text-ink"
        >
          <Plus size={18} />
        </Link>
      </div>
      <label className="relative mx-2 mb-1 block">
        <span className="sr-only">{t('Search sessions and their messages')}</span>
        <Search size={15} className="absolute top-2 left-2.5 text-soft" aria-hidden />
        <Input type="search" value={text} onChange={(event) => setText(event.target.value)} placeholder={t('Search')} className="pl-8" />
      </label>
      <SessionList key={q} q={q} />
      <Rooms administrator={administrator} />
      <Account />
    </aside>
  );
}

function Rooms({ administrator }: { administrator: boolean }) {
  const shown = rooms.filter((room) => room.nav && (!room.nav.admin || administrator));
  if (shown.length === 0) return null;
  return (
    <nav aria-label={t('Rooms')} className="max-h-[45%] overflow-y-auto border-t px-2 py-1.5">
      <ul>
        {shown.map(
          ({ path, nav }) =>
            nav && (
              <li key={path}>
                <Link
                  to={path}
                  className="flex items-center gap-2 rounded-md px-2 py-1 text-soft hover:bg-hover hover:text-ink"
                  activeProps={{ className: 'bg-hover text-ink' }}
                >
                  <nav.icon size={16} className="shrink-0" />
                  {nav.label}
                  {nav.badge && <nav.badge />}
                </Link>
              </li>
            ),
        )}
      </ul>
    </nav>
  );
}

function Account() {
  const auth = useAuth();
  const theme = useTheme();
  if (auth.status !== 'in') return null;
  const { me } = auth;
  return (
    <div className="flex items-center gap-1 border-t p-2">
      <span className="min-w-0 flex-1 truncate px-1 text-soft" dir="auto" title={me.email || me.username}>
        {me.name || me.username}
      </span>
      <Menu
        trigger={
          <IconButton label={t('Theme')}>
            {theme === 'dark' ? <Moon size={16} /> : theme === 'light' ? <Sun size={16} /> : <Monitor size={16} />}
          </IconButton>
        }
        items={[
          { label: t('System'), icon: <Monitor size={15} />, run: () => setTheme('system'), checked: theme === 'system' },
          { label: t('Light'), icon: <Sun size={15} />, run: () => setTheme('light'), checked: theme === 'light' },
          { label: t('Dark'), icon: <Moon size={15} />, run: () => setTheme('dark'), checked: theme === 'dark' },
        ]}
      />
      <IconButton label={t('Sign out')} onClick={() => void signOut()}>
        <LogOut size={16} />
      </IconButton>
    </div>
  );
}
