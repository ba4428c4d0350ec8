import { createRootRoute, createRoute, createRouter, Link } from '@tanstack/react-router';
import { t } from './lib/i18n';
import { rooms } from './rooms';
import { Layout } from './shell/layout';
import { Empty, Failure, Spinner } from './ui/page';

const root = createRootRoute({
  component: Layout,
  notFoundComponent: () => (
    <Empty
      title={t('There is no such page')}
      action={
        <Link to="/" className="text-accent underline">
          {t('Go to the start')}
        </Link>
      }
    />
  ),
  errorComponent: ({ error, reset }) => (
    <div className="p-4">
      <Failure error={error} retry={reset} />
    </div>
  ),
});

const routes = rooms.map((room) => createRoute({ getParentRoute: () => root, path: room.path, component: room.component }));

// A room that is loaded at once replaces the one before. React would hold back what replaces a spinner for 300 ms, so that
// one is shown only where the network is slow.
export const router = createRouter({
  routeTree: root.addChildren(routes),
  defaultPreload: false,
  scrollRestoration: false,
  defaultPendingMs: 150,
  defaultPendingMinMs: 0,
  defaultPendingComponent: () => (
    <div className="p-4 pl-14">
      <Spinner />
    </div>
  ),
});
