import { Bot, CalendarClock, Inbox, Library, Settings, ShieldCheck, SquareKanban, Webhook, Workflow } from 'lucide-react';
import { type ComponentType, lazy, type LazyExoticComponent } from 'react';
import { InboxBadge } from './rooms/inbox/badge';

/**
 * Room is a page of the desktop. It is loaded when it is opened for the first time. One with a `nav` is in the sidebar;
 * `admin` ones only for administrators. Parameters of a path are read with `useParams({ strict: false })`.
 */
export interface Room {
  path: string;
  component: LazyExoticComponent<ComponentType>;
  nav?: { label: string; icon: ComponentType<{ size?: number; className?: string }>; group: 'work' | 'library' | 'settings'; admin?: boolean; badge?: ComponentType };
}

/** rooms lists all pages; the sidebar has them in this order. */
export const rooms: Room[] = [
  { path: '/', component: lazy(() => import('./rooms/chat/new-chat')) },
  { path: '/s/$sessionId', component: lazy(() => import('./rooms/chat/chat')) },
  { path: '/s/$sessionId/files', component: lazy(() => import('./rooms/files/files')) },
  { path: '/s/$sessionId/history', component: lazy(() => import('./rooms/history/history')) },
  { path: '/inbox', component: lazy(() => import('./rooms/inbox/inbox')), nav: { label: 'Inbox', icon: Inbox, group: 'work', badge: InboxBadge } },
  { path: '/schedules', component: lazy(() => import('./rooms/schedules/schedules')), nav: { label: 'Schedules', icon: CalendarClock, group: 'work' } },
  { path: '/schedules/new', component: lazy(() => import('./rooms/schedules/edit')) },
  { path: '/schedules/$taskId', component: lazy(() => import('./rooms/schedules/schedule')) },
  { path: '/schedules/$taskId/edit', component: lazy(() => import('./rooms/schedules/edit')) },
  { path: '/board', component: lazy(() => import('./rooms/board/workspaces')), nav: { label: 'Board', icon: SquareKanban, group: 'work' } },
  { path: '/board/$workspaceId', component: lazy(() => import('./rooms/board/board')) },
  { path: '/board/$workspaceId/$issueId', component: lazy(() => import('./rooms/board/issue')) },
  { path: '/dags', component: lazy(() => import('./rooms/dags/dags')), nav: { label: 'DAGs', icon: Workflow, group: 'work' } },
  { path: '/dags/$dagId', component: lazy(() => import('./rooms/dags/dag')) },
  { path: '/dags/$dagId/runs/$runId', component: lazy(() => import('./rooms/dags/run')) },
  { path: '/agents', component: lazy(() => import('./rooms/agents/agents')), nav: { label: 'Agents', icon: Bot, group: 'work' } },
  { path: '/webhooks', component: lazy(() => import('./rooms/webhooks/webhooks')), nav: { label: 'Webhooks', icon: Webhook, group: 'work' } },
  { path: '/webhooks/$webhookId', component: lazy(() => import('./rooms/webhooks/webhook')) },
  { path: '/library', component: lazy(() => import('./rooms/library/library')), nav: { label: 'Library', icon: Library, group: 'library' } },
  { path: '/admin', component: lazy(() => import('./rooms/admin/admin')), nav: { label: 'Administration', icon: ShieldCheck, group: 'settings', admin: true } },
  { path: '/settings', component: lazy(() => import('./rooms/settings/settings')), nav: { label: 'Settings', icon: Settings, group: 'settings' } },
];
