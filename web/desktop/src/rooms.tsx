import { type AsyncRouteComponent, lazyRouteComponent } from '@tanstack/react-router';
import { Bot, CalendarClock, Inbox, Library, Settings, ShieldCheck, SquareKanban, Webhook, Workflow, Zap } from 'lucide-react';
import type { ComponentType } from 'react';
import { roomTexts, t } from './lib/i18n';
import { InboxBadge } from './rooms/inbox/badge';

/**
 * Room is a page of the desktop. It is loaded when it is opened for the first time. One with a `nav` is in the sidebar;
 * `admin` ones only for administrators. Parameters of a path are read with `useParams({ strict: false })`.
 */
export interface Room {
  path: string;
  component: AsyncRouteComponent<object>;
  nav?: {
    label: string;
    icon: ComponentType<{ size?: number; className?: string }>;
    group: 'work' | 'library' | 'settings';
    admin?: boolean;
    badge?: ComponentType;
  };
}

// The texts of a room come before its modules, which take theirs when they are loaded.
const room = (load: () => Promise<{ default: ComponentType }>) =>
  lazyRouteComponent(async () => {
    await roomTexts();
    return load();
  });

/** rooms lists all pages; the sidebar has them in this order. */
export const rooms: Room[] = [
  { path: '/', component: lazyRouteComponent(() => import('./rooms/chat/new-chat')) },
  { path: '/s/$sessionId', component: lazyRouteComponent(() => import('./rooms/chat/chat')) },
  { path: '/s/$sessionId/files', component: room(() => import('./rooms/files/files')) },
  { path: '/s/$sessionId/history', component: room(() => import('./rooms/history/history')) },
  {
    path: '/inbox',
    component: room(() => import('./rooms/inbox/inbox')),
    nav: { label: t('Inbox'), icon: Inbox, group: 'work', badge: InboxBadge },
  },
  {
    path: '/schedules',
    component: room(() => import('./rooms/schedules/schedules')),
    nav: { label: t('Schedules'), icon: CalendarClock, group: 'work' },
  },
  { path: '/schedules/new', component: room(() => import('./rooms/schedules/edit')) },
  { path: '/schedules/$taskId', component: room(() => import('./rooms/schedules/schedule')) },
  { path: '/schedules/$taskId/edit', component: room(() => import('./rooms/schedules/edit')) },
  {
    path: '/triggers',
    component: room(() => import('./rooms/triggers/triggers')),
    nav: { label: t('Triggers'), icon: Zap, group: 'work' },
  },
  { path: '/triggers/$triggerId', component: room(() => import('./rooms/triggers/trigger')) },
  {
    path: '/board',
    component: room(() => import('./rooms/board/workspaces')),
    nav: { label: t('Board'), icon: SquareKanban, group: 'work' },
  },
  { path: '/board/$workspaceId', component: room(() => import('./rooms/board/board')) },
  { path: '/board/$workspaceId/$issueId', component: room(() => import('./rooms/board/issue')) },
  { path: '/dags', component: room(() => import('./rooms/dags/dags')), nav: { label: t('DAGs'), icon: Workflow, group: 'work' } },
  { path: '/dags/runs', component: room(() => import('./rooms/dags/all-runs')) },
  { path: '/dags/$dagId', component: room(() => import('./rooms/dags/dag')) },
  { path: '/dags/$dagId/runs/$runId', component: room(() => import('./rooms/dags/run')) },
  { path: '/agents', component: room(() => import('./rooms/agents/agents')), nav: { label: t('Agents'), icon: Bot, group: 'work' } },
  {
    path: '/webhooks',
    component: room(() => import('./rooms/webhooks/webhooks')),
    nav: { label: t('Webhooks'), icon: Webhook, group: 'work' },
  },
  { path: '/webhooks/$webhookId', component: room(() => import('./rooms/webhooks/webhook')) },
  {
    path: '/library',
    component: room(() => import('./rooms/library/library')),
    nav: { label: t('Library'), icon: Library, group: 'library' },
  },
  {
    path: '/admin',
    component: room(() => import('./rooms/admin/admin')),
    nav: { label: t('Administration'), icon: ShieldCheck, group: 'settings', admin: true },
  },
  {
    path: '/settings',
    component: room(() => import('./rooms/settings/settings')),
    nav: { label: t('Settings'), icon: Settings, group: 'settings' },
  },
];
