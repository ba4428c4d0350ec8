import { useAuth } from '../../lib/auth';
import { t } from '../../lib/i18n';
import { Empty } from '../../ui/page';
import { TabbedPage } from '../../ui/tabs';
import { Audit } from './audit';
import { Configuration } from './configuration';
import { Diagnostics } from './diagnostics';
import { Overview } from './overview';
import { Runs } from './runs';
import { Users } from './users';

export default function Administration() {
  const auth = useAuth();
  if (auth.status !== 'in' || !auth.me.administrator)
    return <Empty title={t('This page is for administrators')}>{t('An administrator can give you the right to see it.')}</Empty>;
  return (
    <TabbedPage
      title={t('Administration')}
      tabs={[
        { id: 'overview', label: t('Overview'), content: <Overview /> },
        { id: 'runs', label: t('Runs'), content: <Runs /> },
        { id: 'users', label: t('Users'), content: <Users /> },
        { id: 'audit', label: t('Audit'), content: <Audit /> },
        { id: 'diagnostics', label: t('Diagnostics'), content: <Diagnostics /> },
        { id: 'configuration', label: t('Configuration'), content: <Configuration /> },
      ]}
    />
  );
}
